// Construction, optimizers and state of a sharded model; see sharded_model.h.
#include "sharding/sharded_model.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "muster/base/errors.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

void require_floating(const char* name, const std::optional<at::ScalarType>& dtype) {
  if (!dtype || at::isFloatingType(*dtype)) return;
  throw std::invalid_argument(std::string("ShardingOptions::") + name + " is " +
                              c10::toString(*dtype) + ": a floating-point type is needed");
}

void require_dense(const DataParallel::State& state) {
  const std::vector<bool> sparse = sparse_flags(*state.module, state.parameters);
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (!sparse[i]) continue;
    throw std::invalid_argument("sharding: parameter '" + state.parameters[i].name +
                                "' has sparse gradients, which cannot be sharded: make the " +
                                "embedding without sparse(true)");
  }
}

ShardingOptions checked(ShardingOptions options, const DataParallel& data_parallel) {
  const StagePolicy policy = policy_of(options.stage);
  if (!policy.shards_gradients && options.reduce_every_micro_batch) {
    throw std::invalid_argument(
        "ShardingOptions::reduce_every_micro_batch needs zero2 or zero3: zero1 keeps whole "
        "gradients");
  }
  if (!policy.shards_gradients && options.param_dtype) {
    throw std::invalid_argument(
        "ShardingOptions::param_dtype needs zero2 or zero3: with zero1 the parameters stay as the "
        "model has them");
  }
  require_floating("param_dtype", options.param_dtype);
  require_floating("reduce_dtype", options.reduce_dtype);
  require_dense(data_parallel.state());
  const DataParallelOptions& frame = data_parallel.options();
  if (policy.shards_gradients && frame.gradient_compression != GradientCompression::none) {
    throw std::invalid_argument(
        "DataParallelOptions::gradient_compression does not act with zero2 and zero3: set "
        "ShardingOptions::reduce_dtype instead");
  }
  return options;
}

// Only Adagrad has state before its first step; it is sharded too.
void hand_over_state(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                     const ParameterSlot& slot) {
  auto& states = optimizer.state();
  const auto found = states.find(parameter.unsafeGetTensorImpl());
  if (found == states.end()) return;
  std::unique_ptr<torch::optim::OptimizerParamState> state = std::move(found->second);
  states.erase(found);
  if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(state.get())) {
    adagrad->sum(adagrad->sum()
                     .reshape({-1})
                     .narrow(0, slot.range.begin, slot.range.count)
                     .to(slot.piece.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
    states[slot.piece.unsafeGetTensorImpl()] = std::move(state);
  }
}

}  // namespace

ShardedModel::ShardedModel(std::shared_ptr<DataParallel> data_parallel,
                           const ShardingOptions& options, ShardingGroups groups, at::Device device,
                           int world_size)
    : data_parallel_(std::move(data_parallel)),
      options_(checked(options, *data_parallel_)),
      policy_(policy_of(options_.stage)),
      groups_(std::move(groups)),
      device_(device),
      world_size_(world_size),
      shard_group_(groups_.shard, device),
      pool_(device) {
  data_parallel_->state().sharded = true;
  if (groups_.copies) copies_.emplace(groups_.copies, device);
  std::vector<UnitLayout> layouts =
      plan_units(data_parallel_->module(), options_, shard_group_.size());
  for (UnitLayout& layout : layouts) {
    const at::ScalarType own = layout.parameters.front().tensor.scalar_type();
    const ShardUnit::Options unit{
        .number = static_cast<int>(units_.size()),
        .keeps_whole = !policy_.shards_parameters,
        .compute_dtype = own == at::kDouble ? own : options_.param_dtype.value_or(own),
        .device = device_};
    units_.push_back(std::make_unique<ShardUnit>(std::move(layout), unit, shard_group_, pool_,
                                                 static_cast<ShardOwner&>(*this)));
  }
  slots_.reserve(2 * data_parallel_->state().all.size());
  for (const auto& unit : units_) {
    for (ParameterSlot& slot : unit->slots()) {
      slots_[slot.parameter.tensor.unsafeGetTensorImpl()] = &slot;
      slots_[slot.piece.unsafeGetTensorImpl()] = &slot;
    }
  }
}

// What is in flight fails at once if the other ranks are gone.
ShardedModel::~ShardedModel() {
  try {
    leave();
  } catch (const std::exception&) {
  }
}

void ShardedModel::leave() {
  if (std::exchange(has_left_, true)) return;
  held_ = 0;
  for (const auto& unit : units_) unit->leave();
}

void ShardedModel::require_module() const {
  if (!has_left_) return;
  throw Error(
      "this model was released by free_memory(), or prepared again: use what the last prepare() "
      "returned");
}

void ShardedModel::follow_parameters() {
  require_dense(data_parallel_->state());
  if (policy_.shards_gradients) end_backward();
  for (const auto& unit : units_) unit->follow_marks();
}

void ShardedModel::adopt(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      ParameterSlot* slot = find(parameter);
      if (slot == nullptr) continue;
      optimizing_ = Optimizing::prepared_optimizer;
      if (parameter.is_same(slot->piece)) continue;
      hand_over_state(optimizer, parameter, *slot);
      parameter = slot->piece;
    }
  }
}

bool ShardedModel::is_stepped_by(torch::optim::Optimizer& optimizer) const {
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (find(parameter) != nullptr) return true;
    }
  }
  return false;
}

ParameterSlot* ShardedModel::find(const at::Tensor& tensor) const {
  const auto found = slots_.find(tensor.unsafeGetTensorImpl());
  return found == slots_.end() ? nullptr : found->second;
}

ParameterSlot* ShardedModel::find(const std::string& name) const {
  if (slots_by_name_.empty()) {
    for (const auto& unit : units_) {
      for (ParameterSlot& slot : unit->slots()) {
        for (const std::string& own : slot.parameter.names) slots_by_name_[own] = &slot;
      }
    }
  }
  const auto found = slots_by_name_.find(name);
  return found == slots_by_name_.end() ? nullptr : found->second;
}

void ShardedModel::place(const at::Tensor& parameter, const at::Tensor& value) {
  if (ParameterSlot* slot = find(parameter)) units_[slot->unit]->place(*slot, value);
}

void ShardedModel::end_placing() {
  if (!copies_) return;
  for (const auto& unit : units_) unit->share_masters(*copies_);
}

at::Tensor ShardedModel::read_whole(const ParameterSlot& slot) {
  if (read_unit_ != slot.unit) {
    end_reading();
    read_values_ = units_[slot.unit]->gather_masters();
    read_unit_ = slot.unit;
  }
  return read_values_.narrow(0, slot.parameter.offset, slot.parameter.numel()).view(slot.shape);
}

void ShardedModel::end_reading() {
  if (read_unit_ >= 0) pool_.give_back(read_values_);
  read_values_.reset();
  read_unit_ = -1;
}

void ShardedModel::add_usage(MemoryUsage& usage) const {
  for (const auto& unit : units_) {
    usage.parameters += unit->owned_bytes();
    if (policy_.shards_parameters && unit->has_memory()) {
      usage.gathered += unit->whole_bytes();
    }
    for (const ParameterSlot& slot : unit->slots()) {
      const at::Tensor& whole = slot.parameter.tensor.grad();
      if (whole.defined()) usage.gradients += static_cast<int64_t>(whole.nbytes());
      const at::Tensor& part = slot.piece.grad();
      if (part.defined() && !(whole.defined() && part.is_alias_of(whole))) {
        usage.gradients += static_cast<int64_t>(part.nbytes());
      }
    }
  }
  usage.gathered_peak += gathered_peak_;
  usage.gradients_peak += gradients_peak_;
}

}  // namespace muster
