// Sharded models; see muster/sharding/model_sharding.h.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>

#include "accelerator/state.h"
#include "base/distinct_tensors.h"
#include "device/device_driver.h"
#include "muster/optim/clip_grad.h"
#include "muster/optim/optimizers.h"

namespace muster {
namespace {

// Combines the p-norms of a vector's shards on several ranks.
at::Tensor joined_norm(ShardedModel& model, const at::Tensor& own, double norm_type) {
  if (std::isinf(norm_type)) {
    const at::Tensor extreme = own.clone();
    model.all_reduce(extreme, norm_type > 0 ? c10d::ReduceOp::MAX : c10d::ReduceOp::MIN);
    return extreme;
  }
  const bool has_double = collective_takes(own.device(), MUSTER_ALL_REDUCE, at::kDouble);
  const at::Tensor sum = own.to(has_double ? at::kDouble : at::kFloat).pow(norm_type);
  model.all_reduce(sum, c10d::ReduceOp::SUM);
  return sum.pow(1.0 / norm_type).to(own.scalar_type());
}

// Norm 0: how many of the gradients are not all zero; a part on one rank is enough.
at::Tensor count_not_zero(ShardedModel& model, const std::vector<at::Tensor>& pieces,
                          at::Device device) {
  const at::Tensor flags =
      at::zeros({static_cast<int64_t>(pieces.size())}, at::dtype(at::kFloat).device(device));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const at::Tensor& gradient = pieces[i].grad();
    if (gradient.defined()) flags[static_cast<int64_t>(i)].copy_(gradient.ne(0).any());
  }
  model.all_reduce(flags, c10d::ReduceOp::MAX);
  return flags.sum();
}

std::string mebibytes(int64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

bool has_stepped(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  if (const auto* own = dynamic_cast<const Optimizer*>(&optimizer)) {
    return !own->parameter_state(parameter).empty();
  }
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return false;
  // Only Adagrad has state before its first step.
  const auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(found->second.get());
  return adagrad == nullptr || adagrad->step() > 0;
}

// Throws for dtypes that the device's collectives do not support, before anything is sharded.
void require_collective_types(const std::vector<NamedParameter>& parameters,
                              const ShardingOptions& options, at::Device device) {
  require_collective_dtype(device, MUSTER_REDUCE_SCATTER, options.reduce_dtype.value_or(at::kFloat),
                           "the average of gradients (ShardingOptions::reduce_dtype)");
  std::set<at::ScalarType> checked;
  for (const NamedParameter& parameter : parameters) {
    const at::ScalarType own = parameter.tensor.scalar_type();
    if (!checked.insert(own).second) continue;
    require_collective_dtype(
        device, MUSTER_ALL_GATHER, own == at::kDouble ? own : options.param_dtype.value_or(own),
        "the parameter '" + parameter.name +
            (options.param_dtype ? "' in the type of ShardingOptions::param_dtype or the mixed "
                                   "precision"
                                 : "'"));
  }
}

}  // namespace

std::string MemoryUsage::text() const {
  return "parameters " + mebibytes(parameters) + ", gradients " + mebibytes(gradients) +
         ", optimizer state " + mebibytes(optimizer_state) +
         (gathered_peak == 0 ? "" : ", gathered at most " + mebibytes(gathered_peak));
}

const ShardingGroups& Accelerator::State::open_sharding_groups() {
  if (sharding_groups) return *sharding_groups;
  const int size = options.sharding.shard_group_size;
  const int world = topology.world_size;
  if (size < 0 || (size > 0 && world % size != 0)) {
    throw std::invalid_argument("ShardingOptions::shard_group_size is " + std::to_string(size) +
                                ", which does not divide the " + std::to_string(world) +
                                " ranks: use 0 (all ranks) or a divisor");
  }
  ShardingGroups groups;
  if (size == 0 || size == world) {
    groups.shard = group;
  } else {
    groups.copy = topology.rank / size;
    std::vector<int> sharers, copies;
    for (int rank = 0; rank < size; ++rank) sharers.push_back(groups.copy * size + rank);
    for (int rank = topology.rank % size; rank < world; rank += size) copies.push_back(rank);
    const ProcessGroupOptions group_options = {options.process_group_timeout, options.init_timeout,
                                               options.network_interfaces};
    groups.shard = make_sub_group(group, "shard", sharers, group_options);
    groups.copies = make_sub_group(group, "copies", copies, group_options);
  }
  groups.meet = [collectives = collectives](const char* function, const std::string& what) {
    collectives->meet(function, what);
  };
  sharding_groups = std::move(groups);
  return *sharding_groups;
}

std::shared_ptr<ShardedModel> Accelerator::State::shard(
    const std::shared_ptr<DataParallel>& model) {
  ShardingOptions filled = options.sharding;
  if (filled.stage == ZeroStage::none) return {};
  // Not in fp16: gradients of parameters that autocast leaves in float32 (norms, embeddings) would
  // overflow where DDP's do not, and the scaler would skip more steps.
  if (filled.stage == ZeroStage::zero3 && !filled.param_dtype && precision == Precision::bf16 &&
      options.autocast.enabled) {
    filled.param_dtype = at::kBFloat16;
  }
  if (group) require_collective_types(model->state().all, filled, device);
  auto sharded = std::make_shared<ShardedModel>(model, filled, open_sharding_groups(), device,
                                                topology.world_size);
  for (const auto& optimizer : gradients->optimizers) hand_over(*sharded, *optimizer);
  gradients->sharded.push_back(sharded);
  return sharded;
}

// State from before, such as a file's, is divided with the parameters.
void Accelerator::State::hand_over(ShardedModel& model, torch::optim::Optimizer& optimizer) {
  auto* own = dynamic_cast<Optimizer*>(&optimizer);
  std::vector<std::pair<const ParameterSlot*, TensorMap>> states;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const ParameterSlot* slot = model.find(parameter);
      if (slot == nullptr || parameter.is_same(slot->piece) || !has_stepped(optimizer, parameter)) {
        continue;
      }
      if (own == nullptr) {
        throw std::invalid_argument(
            "sharding: an optimizer of torch::optim has state from before the model was prepared, "
            "on "
            "parameters that are now sharded over the ranks: prepare both before the first step, "
            "or "
            "use muster's");
      }
      states.emplace_back(slot, own->parameter_state(parameter));
      own->set_parameter_state(parameter, {});
    }
  }
  model.adopt(optimizer);
  for (auto& [slot, state] : states) {
    if (slot->range.count == 0) continue;
    for (auto& [field, tensor] : state) {
      if (field != "step")
        tensor = tensor.flatten().narrow(0, slot->range.begin, slot->range.count);
    }
    own->set_parameter_state(slot->piece, state);
  }
}

ShardedModel* Accelerator::State::sharded_of(const torch::nn::Module& module) const {
  for (const auto& model : gradients->sharded) {
    if (&model->data_parallel().module() == &module) return model.get();
  }
  return nullptr;
}

std::vector<at::Tensor> Accelerator::State::stepped_tensors(
    const std::vector<at::Tensor>& parameters) const {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& parameter : distinct(parameters)) {
    ParameterSlot* slot = nullptr;
    for (const auto& model : gradients->sharded) {
      if (slot == nullptr) slot = model->find(parameter);
    }
    tensors.push_back(slot == nullptr ? parameter : slot->piece);
  }
  return tensors;
}

// For shards, combines the ranks' norms. Unsharded gradients give results bit-identical to DDP's.
at::Tensor Accelerator::State::clip_grad_norm(const std::vector<at::Tensor>& given, double max_norm,
                                              double norm_type) const {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> parameters = gradients->gradient_holders(given);
  std::vector<at::Tensor> whole;
  std::vector<std::vector<at::Tensor>> parts(gradients->sharded.size());
  for (const at::Tensor& parameter : parameters) {
    bool is_part = false;
    for (size_t i = 0; i < parts.size() && !is_part; ++i) {
      ShardedModel& model = *gradients->sharded[i];
      ParameterSlot* slot = model.find(parameter);
      is_part = slot != nullptr && !model.has_whole_gradients();
      if (is_part) parts[i].push_back(slot->piece);
    }
    if (!is_part) whole.push_back(parameter);
  }
  if (whole.size() == parameters.size()) {
    const at::Tensor total = muster::clip_grad_norm_(parameters, max_norm, norm_type);
    gradients->changed_gradients();
    return total;
  }
  const auto norm_of = [&](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> defined;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.grad().defined()) defined.push_back(tensor.grad());
    }
    // The norm of an empty shard, which leaves the other ranks' norms unchanged.
    const double nothing = norm_type < 0 ? HUGE_VAL : 0.0;
    return defined.empty() ? at::full({}, nothing, at::dtype(at::kFloat).device(device))
                           : get_total_norm(defined, norm_type);
  };
  std::vector<at::Tensor> norms = {norm_of(whole)};
  for (size_t i = 0; i < parts.size(); ++i) {
    // All ranks name the same parameters, so their collectives match.
    if (parts[i].empty()) continue;
    ShardedModel& model = *gradients->sharded[i];
    norms.push_back(norm_type == 0 ? count_not_zero(model, parts[i], device)
                                   : joined_norm(model, norm_of(parts[i]), norm_type));
  }
  at::Tensor total = norms[1];
  if (norm_type == 0) {
    total = at::stack(norms).sum();
  } else if (norms.size() > 2 || !whole.empty()) {
    total = at::linalg_vector_norm(at::stack(norms), norm_type);
  }
  clip_grads_with_norm_(parameters, max_norm, total);
  gradients->changed_gradients();
  return total;
}

MemoryUsage Accelerator::memory_usage() const {
  const State& state = *state_;
  MemoryUsage usage;
  std::vector<at::Tensor> parameters;
  for (const auto& model : state.models) {
    if (const ShardedModel* sharded = state.sharded_of(model->module())) {
      sharded->add_usage(usage);
      continue;
    }
    for (const at::Tensor& parameter : model->module().parameters()) {
      if (parameter.defined()) parameters.push_back(parameter);
    }
  }
  // Modules and models may share parameters.
  for (const at::Tensor& parameter : distinct(parameters)) {
    usage.parameters += static_cast<int64_t>(parameter.nbytes());
    if (parameter.grad().defined()) {
      usage.gradients += static_cast<int64_t>(parameter.grad().nbytes());
    }
  }
  const ParameterPlaces places = state.parameter_places();
  for (const auto& optimizer : state.gradients->optimizers) {
    // The names of version 2 never meet, so every tensor counts.
    const OptimizerNames names = optimizer_names(*optimizer, places, 2);
    for (const auto& [name, tensor] : optimizer_tensors(*optimizer, names.names)) {
      if (tensor.dim() > 0 && name != "lr") {
        usage.optimizer_state += static_cast<int64_t>(tensor.nbytes());
      }
    }
  }
  return usage;
}

}  // namespace muster
