// Gradients of a sharded model: reduced unit by unit during backward; see sharded_model.h.
#include <algorithm>
#include <utility>

#include "muster/base/errors.h"
#include "parallel/call_name.h"
#include "sharding/sharded_model.h"

namespace muster {

void ShardedModel::hook_gradients() {
  for (const auto& unit : units_) {
    for (ParameterSlot& slot : unit->slots()) {
      if (!slot.trained || slot.accumulator) continue;
      slot.accumulator = after_each_gradient(
          slot.parameter.tensor,
          [this, alive = std::weak_ptr(alive_), unit = unit.get(), slot = &slot] {
            // A graph may outlive the model.
            if (!alive.expired()) gradient_ready(*unit, *slot);
          });
    }
  }
}

bool ShardedModel::reduces() const {
  return options_.reduce_every_micro_batch || data_parallel_->synchronizing();
}

void ShardedModel::gradient_ready(ShardUnit& unit, ParameterSlot& slot) {
  move(PassEvent::gradient_arrives);
  // Called twice if several checkpointed segments use a parameter; end_backward reduces the rest.
  if (slot.ready) return;
  slot.ready = true;
  const at::Tensor& gradient = slot.parameter.tensor.grad();
  if (gradient.defined()) whole_gradients_ += static_cast<int64_t>(gradient.nbytes());
  gradients_peak_ = std::max(gradients_peak_, whole_gradients_);
  if (++unit.ready < unit.trained()) return;
  // The root's parameters are used throughout the model, so its gradients are complete only at the
  // end. And nothing can be reduced early if the ranks may have different graphs.
  if (unit.layout().is_root || data_parallel_->options().find_unused_parameters) return;
  if (reduces()) reduce(unit);
  if (policy_.shards_parameters && held_ == 0) reshard(unit);
}

void ShardedModel::reduce(ShardUnit& unit) {
  for (const ParameterSlot& slot : unit.slots()) {
    const at::Tensor& gradient = slot.parameter.tensor.grad();
    if (gradient.defined()) whole_gradients_ -= static_cast<int64_t>(gradient.nbytes());
  }
  // At most one reduction is in flight: the buffers of all would be as large as the model.
  finish_reduce();
  reducing_ = &unit;
  const CallSubject subject(unit.subject(), unit.reduces());
  unit.start_reduce(options_.reduce_dtype.value_or(at::kFloat), 1.0 / world_size_);
}

void ShardedModel::finish_reduce() {
  if (reducing_ != nullptr) reducing_->finish_reduce(copies_ ? &*copies_ : nullptr);
  reducing_ = nullptr;
}

std::vector<std::vector<bool>> ShardedModel::used_slots() {
  std::vector<std::vector<bool>> used;
  for (const auto& unit : units_) {
    auto& slots = used.emplace_back();
    for (const ParameterSlot& slot : unit->slots()) {
      slots.push_back(slot.ready || slot.piece.grad().defined() ||
                      slot.parameter.tensor.grad().defined());
      if (slot.trained && !slots.back()) unused_ += "'" + slot.parameter.names.front() + "', ";
    }
  }
  if (!data_parallel_->options().find_unused_parameters) return used;
  unused_.clear();
  std::vector<int32_t> flags;
  for (const auto& slots : used) flags.insert(flags.end(), slots.begin(), slots.end());
  at::Tensor any = at::tensor(flags, at::kInt).to(device_);
  shard_group_.all_reduce(any, c10d::ReduceOp::MAX).wait();
  if (copies_) copies_->all_reduce(any, c10d::ReduceOp::MAX).wait();
  any = any.cpu();
  const int32_t* next = any.const_data_ptr<int32_t>();
  for (auto& slots : used) {
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = *next++ != 0;
  }
  return used;
}

bool ShardedModel::any_gradient_came() const {
  return std::any_of(units_.begin(), units_.end(),
                     [](const auto& unit) { return unit->ready > 0; });
}

void ShardedModel::end_backward() {
  if (!gradients_are_due(state_)) return;
  if (!policy_.shards_gradients) {
    // Without synchronization, gradients are still accumulating.
    if (data_parallel_->synchronizing() && expose_whole_gradients()) {
      move(PassEvent::gradients_done);
    }
    return;
  }
  if (!any_gradient_came()) {
    // A forward whose backward has not run yet, or the backward of another model's loss.
    move(PassEvent::no_gradient_came);
    if (!unshards_on_use(state_)) reshard_all();
    return;
  }
  move(PassEvent::gradients_done);
  if (reduces()) reduce_rest();
  for (const auto& unit : units_) {
    unit->ready = 0;
    unit->reduced = false;
    for (ParameterSlot& slot : unit->slots()) slot.ready = false;
  }
  reshard_all();
}

void ShardedModel::reduce_rest() {
  const std::vector<std::vector<bool>> used = used_slots();
  for (const auto& unit : units_) {
    if (unit->trains() && (!unit->reduced || unit->has_whole_gradients())) reduce(*unit);
  }
  finish_reduce();
  if (optimizing_ == Optimizing::nobody) optimizing_ = Optimizing::nobody_and_gradients_lost;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i]->trains()) units_[i]->expose_gradients(used[i]);
  }
  whole_gradients_ = 0;
}

// Elements of the flattened tensor, which is contiguous, as a view.
static at::Tensor flat_part(const at::Tensor& whole, const ChunkRange& range) {
  if (!whole.is_contiguous()) return whole.view({-1}).narrow(0, range.begin, range.count);
  // One operation instead of two: there may be very many parameters.
  return whole.as_strided({range.count}, {1}, whole.storage_offset() + range.begin);
}

// zero1: DDP has averaged the gradients; each shard gets a view of its part.
bool ShardedModel::expose_whole_gradients() {
  const torch::NoGradGuard no_grad;
  bool any = false;
  for (const auto& unit : units_) {
    for (ParameterSlot& slot : unit->slots()) {
      const at::Tensor& whole = slot.parameter.tensor.grad();
      any |= whole.defined();
      if (!slot.trained || !whole.defined() || slot.range.count == 0) continue;
      slot.piece.mutable_grad() = flat_part(whole, slot.range).to(slot.piece.scalar_type());
    }
  }
  return any;
}

void ShardedModel::scale_gradients(double factor) {
  for (const auto& unit : units_) unit->scale_gradients(factor);
}

bool ShardedModel::has_whole_gradients() const { return !policy_.shards_gradients; }

void ShardedModel::require_all_used() {
  const std::string names = unused_.substr(0, unused_.size() - 2);
  unused_.clear();
  throw UnusedParametersError(
      "the last backward gave no gradient to the parameters " + names +
      ": let the loss depend on them, freeze them (requires_grad_(false)), or set "
      "DataParallelOptions::find_unused_parameters");
}

void ShardedModel::require_optimizer() const {
  throw Error(
      "no prepared optimizer steps on this model, which is sharded over the ranks (" +
      std::string(zero_stage_name(options_.stage)) +
      "): an optimizer of the module's own parameters finds no gradients there; prepare it: "
      "auto optimizer = accelerator.prepare(AdamW(net->parameters()))");
}

void ShardedModel::zero_grad(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& piece : group.params()) {
      ParameterSlot* slot = find(piece);
      if (slot == nullptr) continue;
      const at::Tensor& whole = slot->parameter.tensor.grad();
      if (whole.defined() && policy_.shards_gradients) {
        whole_gradients_ -= static_cast<int64_t>(whole.nbytes());
      }
      slot->parameter.tensor.mutable_grad().reset();
    }
  }
}

}  // namespace muster
