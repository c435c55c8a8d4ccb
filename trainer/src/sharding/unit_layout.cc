// Chooses the units; see unit_layout.h.
#include "sharding/unit_layout.h"

#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <unordered_map>

namespace muster {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool is_list(const torch::nn::Module& module) {
  return module.as<torch::nn::ModuleList>() != nullptr ||
         module.as<torch::nn::Sequential>() != nullptr ||
         module.as<torch::nn::ModuleDict>() != nullptr;
}

bool lies_in(const std::string& name, const std::string& module) {
  return name.starts_with(module) && name.size() > module.size() && name[module.size()] == '.';
}

// Every parameter once, with all its names.
std::vector<UnitParameter> parameters_of(torch::nn::Module& module) {
  std::vector<UnitParameter> parameters;
  std::unordered_map<c10::TensorImpl*, size_t> seen;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) continue;
    const auto [place, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), parameters.size());
    if (is_new) {
      parameters.push_back({tensor, {item.key()}});
    } else {
      parameters[place->second].names.push_back(item.key());
    }
    if (!tensor.is_floating_point() || !tensor.is_contiguous()) {
      throw std::invalid_argument("sharding: parameter '" + item.key() + "' is " +
                                  (tensor.is_contiguous() ? c10::toString(tensor.scalar_type())
                                                          : "not contiguous in memory") +
                                  ": only contiguous floating-point parameters can be sharded; "
                                  "make it a buffer, or call contiguous() on it");
    }
  }
  return parameters;
}

// A module whose parameters form a unit.
struct UnitModule {
  std::string name;
  bool is_named = false;  // by ShardingOptions::units itself, not as a child of a list
};

std::vector<UnitModule> unit_modules(torch::nn::Module& module, const ShardingOptions& options) {
  std::vector<UnitModule> units;
  const auto modules = module.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  const auto add_children = [&](const std::string& name, const torch::nn::Module& list) {
    for (const auto& child : list.named_children()) units.push_back({name + "." + child.key()});
  };
  if (!options.units.empty()) {
    for (const std::string& name : options.units) {
      const auto* found = modules.find(name);
      if (found == nullptr) {
        throw std::invalid_argument("ShardingOptions::units: the model has no module '" + name +
                                    "'; names are those of named_modules(), such as '" +
                                    (modules.is_empty() ? "" : modules.begin()->key()) + "'");
      }
      if (is_list(**found)) {
        add_children(name, **found);
      } else {
        units.push_back({name, /*is_named=*/true});
      }
    }
    return units;
  }
  std::string outermost;
  for (const auto& item : modules) {
    if (!is_list(*item.value()) || (!outermost.empty() && lies_in(item.key(), outermost))) continue;
    outermost = item.key();
    add_children(item.key(), *item.value());
  }
  return units;
}

using ModulesByName = std::unordered_map<std::string, const UnitModule*>;

// The innermost unit module that contains the parameter; null for the root.
const UnitModule* module_of(const std::string& parameter, const ModulesByName& modules) {
  for (size_t end = parameter.rfind('.'); end != std::string::npos && end > 0;
       end = parameter.rfind('.', end - 1)) {
    const auto found = modules.find(parameter.substr(0, end));
    if (found != modules.end()) return found->second;
  }
  return nullptr;
}

class Planner {
 public:
  // merges: the unit may become part of a larger one.
  void add(const std::string& unit, bool is_root, bool merges, UnitParameter parameter) {
    const auto dtype = parameter.tensor.scalar_type();
    const auto [place, is_new] = index_.emplace(std::make_pair(unit, dtype), units_.size());
    if (is_new) {
      units_.push_back({.name = unit, .is_root = is_root});
      merges_.push_back(merges);
    }
    units_[place->second].parameters.push_back(std::move(parameter));
  }
  // A unit smaller than this is merged with the next one until it is large enough; only the last
  // one before a unit that does not merge may stay smaller.
  void merge_small(int64_t numel_min) {
    std::map<at::ScalarType, size_t> open;  // by dtype: the unit that is still too small
    std::vector<UnitLayout> merged;
    std::vector<int64_t> numels;  // of the merged ones
    for (size_t i = 0; i < units_.size(); ++i) {
      int64_t numel = 0;
      for (const UnitParameter& parameter : units_[i].parameters) numel += parameter.numel();
      if (units_[i].is_root) {
        merged.push_back(std::move(units_[i]));
        numels.push_back(numel);
        continue;
      }
      const auto dtype = units_[i].parameters.front().tensor.scalar_type();
      if (!merges_[i]) open.clear();
      const auto small = open.find(dtype);
      const size_t place = small == open.end() ? merged.size() : small->second;
      if (place == merged.size()) {
        merged.push_back(std::move(units_[i]));
        numels.push_back(numel);
      } else {
        absorb(merged[place], std::move(units_[i]));
        numels[place] += numel;
      }
      open.erase(dtype);
      if (merges_[i] && numels[place] < numel_min) open[dtype] = place;
    }
    units_ = std::move(merged);
  }
  std::vector<UnitLayout> take(int ranks) {
    for (UnitLayout& unit : units_) {
      for (UnitParameter& parameter : unit.parameters) {
        parameter.offset = round_up(unit.end, kAlignment);
        unit.end = parameter.offset + parameter.numel();
        unit.numel += parameter.numel();
      }
      unit.padded = round_up(unit.end, ranks * kAlignment);
    }
    std::erase_if(units_, [](const UnitLayout& unit) { return unit.numel == 0; });
    return std::move(units_);
  }

 private:
  // "layers.0 … layers.7": the first and the last module.
  static void absorb(UnitLayout& unit, UnitLayout next) {
    unit.name = unit.name.substr(0, unit.name.find(" … ")) + " … " + next.name;
    std::move(next.parameters.begin(), next.parameters.end(), std::back_inserter(unit.parameters));
  }

  std::vector<UnitLayout> units_;
  std::vector<bool> merges_;  // by unit
  std::map<std::pair<std::string, at::ScalarType>, size_t> index_;
};

}  // namespace

std::vector<UnitLayout> plan_units(torch::nn::Module& module, const ShardingOptions& options,
                                   int ranks) {
  if (options.unit_numel_min < 0) {
    throw std::invalid_argument("ShardingOptions::unit_numel_min is " +
                                std::to_string(options.unit_numel_min) +
                                ": it must be 0 (no unit is merged) or more");
  }
  if (options.unit_numel < 0 || (options.unit_numel > 0 && !options.units.empty())) {
    throw std::invalid_argument(
        "ShardingOptions: unit_numel is " + std::to_string(options.unit_numel) +
        (options.units.empty() ? ": at least 1 is needed" : ": set it or units, not both"));
  }
  Planner planner;
  if (options.unit_numel > 0) {
    int64_t numel = 0, number = 0;
    for (UnitParameter& parameter : parameters_of(module)) {
      if (numel > 0 && numel + parameter.numel() > options.unit_numel) {
        numel = 0;
        ++number;
      }
      numel += parameter.numel();
      planner.add("unit " + std::to_string(number), false, false, std::move(parameter));
    }
    return planner.take(ranks);
  }
  const std::vector<UnitModule> modules = unit_modules(module, options);
  ModulesByName by_name;
  for (const UnitModule& unit : modules) by_name.emplace(unit.name, &unit);
  for (UnitParameter& parameter : parameters_of(module)) {
    const UnitModule* unit = module_of(parameter.names.front(), by_name);
    const bool is_root = unit == nullptr;
    planner.add(is_root ? "root" : unit->name, is_root, !is_root && !unit->is_named,
                std::move(parameter));
  }
  planner.merge_small(options.unit_numel_min);
  return planner.take(ranks);
}

MemoryPlan memory_plan(torch::nn::Module& module, const ShardingOptions& options, int world_size) {
  const int ranks = options.shard_group_size == 0 ? world_size : options.shard_group_size;
  MemoryPlan plan{.stage = options.stage,
                  .world_size = world_size,
                  .shard_group_size = options.shard_group_size,
                  .reshard_after_forward = options.reshard_after_forward,
                  .prefetch = options.prefetch};
  if (options.param_dtype) {
    plan.parameter_bytes = static_cast<int>(c10::elementSize(*options.param_dtype));
    plan.gradient_bytes = plan.parameter_bytes;
  }
  for (const UnitLayout& layout : plan_units(module, options, ranks)) {
    MemoryUnit unit{.name = layout.name};
    for (const UnitParameter& parameter : layout.parameters) {
      (parameter.tensor.requires_grad() ? unit.trainable : unit.frozen) += parameter.numel();
      unit.largest_tensor = std::max(unit.largest_tensor, parameter.numel());
    }
    if (layout.is_root && plan.root.name.empty()) {
      plan.root = unit;
    } else {
      plan.units.push_back(unit);
    }
  }
  return plan;
}

ChunkRange range_in_chunk(int64_t offset, int64_t numel, int64_t chunk, int rank) {
  const int64_t begin = std::max(offset, chunk * rank);
  const int64_t end = std::min(offset + numel, chunk * (rank + 1));
  if (end <= begin) return {std::clamp<int64_t>(begin - offset, 0, numel), 0};
  return {begin - offset, end - begin};
}

}  // namespace muster
