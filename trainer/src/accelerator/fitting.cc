// Restores what fits of another model's checkpoint; see load_state in muster/accelerator/accelerator.h.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "accelerator/state.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors_file.h"

namespace muster {
namespace {

// "optim.1" of "optim.1/exp_avg/fc.weight".
std::string first_part(const std::string& name) { return name.substr(0, name.find('/')); }
std::string after_slash(const std::string& name) { return name.substr(name.find('/') + 1); }

bool is_of(const char* prefix, const std::string& name) {
  const std::string part = first_part(name);
  return part == prefix || part.starts_with(std::string(prefix) + ".");
}

// The saved fields of each parameter's state.
std::map<std::string, std::vector<std::string>> fields_by_parameter(const TensorSource& saved) {
  std::map<std::string, std::vector<std::string>> fields;
  for (const std::string& name : saved.names()) {
    if (name.find('/') == std::string::npos) continue;  // "lr"
    fields[after_slash(name)].push_back(first_part(name));
  }
  return fields;
}

// What is not known, of models and optimizers.
void add_unexpected(const Manifest& manifest, const std::set<std::string>& known,
                    LoadReport& report) {
  for (const auto& [name, tensor] : manifest.tensors) {
    const bool is_rate = is_of("optim", name) && after_slash(name) == "lr";
    if ((is_of("model", name) || is_of("optim", name)) && !is_rate && !known.contains(name)) {
      report.unexpected.push_back(name);
    }
  }
}

}  // namespace

void Accelerator::State::restore_fitting_model(size_t index, const CheckpointReader& reader,
                                               LoadReport& report, std::set<std::string>& known) {
  const std::string prefix = numbered("model", index) + "/";
  const auto saved = reader.under(numbered("model", index));
  RangeMap ranges;
  TensorMap own = own_tensors(index, ranges);
  std::set<TensorIdentity> provided;
  std::vector<std::pair<std::string, at::Tensor>> missing;
  std::erase_if(own, [&](const auto& item) {
    const auto& [name, tensor] = item;
    const auto range = ranges.find(name);
    const std::vector<int64_t> shape =
        range == ranges.end() ? tensor.sizes().vec() : range->second.shape;
    const auto found = saved->find(name);
    if (found) known.insert(prefix + name);
    if (found && found->shape == shape) {
      report.loaded.push_back(prefix + name);
      provided.insert(identity_of(tensor));
      return false;
    }
    if (!found) {
      missing.emplace_back(name, tensor);
    } else {
      report.mismatched.push_back({prefix + name, found->dtype,
                                   safetensors_dtype(tensor.scalar_type()), found->shape, shape});
    }
    ranges.erase(name);
    return true;
  });
  // Tied weights may be there under only one of their names.
  for (const auto& [name, tensor] : missing) {
    const bool is_tied = tensor.numel() > 0 && provided.contains(identity_of(tensor));
    (is_tied ? report.loaded : report.missing).push_back(prefix + name);
  }
  const RangeSource source(*saved, ranges, reader.path());
  for (const auto& [name, tensor] : own) source.read_into(name, tensor);
}

void Accelerator::State::restore_fitting_optimizer(size_t index, const ParameterPlaces& places,
                                                   const CheckpointReader& reader,
                                                   LoadReport& report,
                                                   std::set<std::string>& known) {
  torch::optim::Optimizer& optimizer = *gradients->optimizers[index];
  const OptimizerNames names = optimizer_names(optimizer, places, reader.manifest().version);
  const std::string prefix = numbered("optim", index) + "/";
  const auto saved = reader.under(numbered("optim", index));
  const auto saved_fields = fields_by_parameter(*saved);
  std::set<std::string> fitting;
  RangeMap ranges;
  const auto fit = [&](size_t group, const at::Tensor& parameter, const std::string& name) {
    const auto found = saved_fields.find(name);
    // The state of one of two parameters is lost if their names were the same.
    if (found == saved_fields.end() || names.met.contains(name) ||
        !takes_fields(optimizer, group, found->second)) {
      if (!saved_fields.empty()) report.missing.push_back(prefix + name);
      return;
    }
    const auto slot = names.slots.find(name);
    const bool is_shard = slot != names.slots.end();
    const std::vector<int64_t> shape = is_shard ? slot->second->shape : parameter.sizes().vec();
    std::vector<std::string> keys;
    const size_t mismatches = report.mismatched.size();
    for (const std::string& field : found->second) {
      keys.push_back(field + "/" + name);
      const TensorDescription described = saved->find(keys.back()).value();
      const std::vector<int64_t> wanted = field == "step" ? std::vector<int64_t>() : shape;
      if (described.shape == wanted) continue;
      known.insert(prefix + keys.back());
      report.mismatched.push_back({prefix + keys.back(), described.dtype,
                                   safetensors_dtype(parameter.scalar_type()), described.shape,
                                   wanted});
    }
    if (report.mismatched.size() > mismatches) return;
    fitting.insert(name);
    for (const std::string& key : keys) {
      known.insert(prefix + key);
      report.loaded.push_back(prefix + key);
      if (!is_shard || first_part(key) == "step") continue;
      const ChunkRange& range = slot->second->range;
      ranges[key] = {range.begin, range.count, slot->second->shape};
    }
  };
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    for (const at::Tensor& parameter : optimizer.param_groups()[group].params()) {
      const auto named = names.names.find(parameter.unsafeGetTensorImpl());
      if (named != names.names.end()) fit(group, parameter, named->second);
    }
  }
  restore_parameters(optimizer, names.names, RangeSource(*saved, ranges, reader.path()), fitting);
}

void Accelerator::State::restore_fitting(const CheckpointReader& reader, LoadReport& report) {
  std::set<std::string> known;  // of the checkpoint's tensors, those that the program has, too
  for (size_t i = 0; i < models.size(); ++i) restore_fitting_model(i, reader, report, known);
  const ParameterPlaces places = parameter_places();
  for (size_t i = 0; i < gradients->optimizers.size(); ++i) {
    restore_fitting_optimizer(i, places, reader, report, known);
  }
  add_unexpected(reader.manifest(), known, report);
  std::sort(report.loaded.begin(), report.loaded.end());
  std::sort(report.missing.begin(), report.missing.end());
  std::sort(report.mismatched.begin(), report.mismatched.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace muster
