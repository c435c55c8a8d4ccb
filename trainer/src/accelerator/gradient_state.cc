// The arithmetic of accumulation windows; see gradient_state.h.
#include "accelerator/gradient_state.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/distinct_tensors.h"
#include "muster/base/errors.h"

namespace muster {

void GradientState::set_accumulation_steps(int steps) {
  if (steps < 1) {
    throw std::invalid_argument("gradient accumulation: num_steps is " + std::to_string(steps) +
                                ", but must be at least 1");
  }
  accumulation.num_steps = steps;
  if (sync_gradients && steps == 1) loss_divisor = 1;
}

void GradientState::forget_prepared() {
  sharded.clear();
  if (scaler) scaler->forget_optimizers();
  optimizers.clear();
  passes_at_step.clear();
  active_loaders.clear();
  sync_gradients = true;
  micro_batches = 0;
  loss_divisor = 1;
}

void GradientState::loader_is_active(const LoaderCore& loader, bool active) {
  std::erase(active_loaders, &loader);
  if (active) active_loaders.push_back(&loader);
}

const LoaderCore* GradientState::ending_loader() const {
  if (active_loaders.empty() || !active_loaders.back()->end_of_dataloader()) return nullptr;
  return active_loaders.back();
}

void GradientState::begin_micro_batch() {
  const bool knows_end = accumulation.sync_with_dataloader && accumulation.weight_short_window;
  // The previous window is complete: this is the first micro-batch of the next.
  if (sync_gradients) {
    micro_batches = 0;
    loss_divisor = accumulation.num_steps;
    const int64_t left = active_loaders.empty() ? -1 : active_loaders.back()->batches_left();
    if (knows_end && left > 0) {
      loss_divisor = static_cast<int>(std::min<int64_t>(left, loss_divisor));
    }
  }
  ++micro_batches;
  const bool epoch_ends = accumulation.sync_with_dataloader && ending_loader() != nullptr;
  sync_gradients = epoch_ends || micro_batches >= accumulation.num_steps;
  // A stream does not know in advance how many batches are left, so its losses were divided by too
  // much.
  if (!sync_gradients || !knows_end || micro_batches >= loss_divisor) return;
  scale_gradients(static_cast<double>(loss_divisor) / micro_batches);
  loss_divisor = micro_batches;
}

void GradientState::scale_gradients(double factor) {
  const torch::NoGradGuard no_grad;
  for (const auto& model : sharded) model->scale_gradients(factor);
  std::vector<at::Tensor> parameters;
  for (const auto& optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      parameters.insert(parameters.end(), group.params().begin(), group.params().end());
    }
  }
  for (at::Tensor& parameter : distinct(parameters)) {
    const bool is_sharded = std::any_of(sharded.begin(), sharded.end(), [&](const auto& model) {
      return model->find(parameter) != nullptr;
    });
    if (!is_sharded && parameter.grad().defined()) parameter.mutable_grad().mul_(factor);
  }
}

void GradientState::require_prepared(const torch::optim::Optimizer& optimizer) const {
  const auto is_it = [&](const auto& known) { return known.get() == &optimizer; };
  if (std::any_of(optimizers.begin(), optimizers.end(), is_it)) return;
  throw Error(
      "optimizer.step(): this optimizer was released by free_memory(): prepare a new one for the "
      "model that is prepared now");
}

void GradientState::require_closures() const {
  if (scaler) {
    throw Error(
        "optimizer.step(closure): fp16's GradScaler decides after one backward whether to step, so "
        "it takes no closure, as in torch: train in bf16 or fp32, or call step() without one");
  }
  if (sync_gradients && loss_divisor == 1) return;
  throw Error(
      "optimizer.step(closure): gradients accumulate over " +
      std::to_string(std::max(accumulation.num_steps, loss_divisor)) +
      " micro-batches, whose other gradients the closure would lose or count again: let the "
      "closure evaluate all micro-batches, after set_gradient_accumulation_steps(1), or call "
      "step() without one");
}

void GradientState::require_forward_pass(const torch::optim::Optimizer& optimizer) {
  const int64_t before = std::exchange(passes_at_step[&optimizer], forward_passes);
  if (!averages_gradients || before != forward_passes) return;
  throw Error(
      "optimizer.step(): no prepared model was called since the last step, so the gradients were "
      "not averaged over the ranks: call what prepare() returned, model(x); -> and unwrap() "
      "give the bare module");
}

void GradientState::end_backward() {
  for (const auto& model : sharded) model->end_backward();
}

std::vector<ShardedModel*> GradientState::owners_of(torch::optim::Optimizer& optimizer) const {
  std::vector<ShardedModel*> owners;
  for (const auto& model : sharded) {
    if (model->is_stepped_by(optimizer)) owners.push_back(model.get());
  }
  return owners;
}

std::vector<at::Tensor> GradientState::gradient_holders(
    const std::vector<at::Tensor>& parameters) const {
  std::vector<at::Tensor> holders;
  for (const at::Tensor& parameter : distinct(parameters)) {
    at::Tensor holder = parameter;
    for (const auto& model : sharded) {
      const ParameterSlot* slot = model->find(parameter);
      if (slot == nullptr) continue;
      holder = model->has_whole_gradients() ? slot->parameter.tensor : slot->piece;
      break;
    }
    holders.push_back(std::move(holder));
  }
  return distinct(holders);
}

void GradientState::changed_gradients() {
  for (const auto& model : sharded) model->follow_whole_gradients();
}

void GradientState::unscale(torch::optim::Optimizer& optimizer) {
  if (scaler->is_unscaled(optimizer)) return;
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  // A rank that owns nothing of these parameters has no gradient, but takes part.
  const bool owns_nothing = !parameters.empty() && std::all_of(parameters.begin(), parameters.end(),
                                                               [](const at::Tensor& parameter) {
                                                                 return parameter.numel() == 0;
                                                               });
  scaler->unscale_(optimizer, gradient_holders(parameters),
                   owns_nothing ? std::optional(parameters[0].device()) : std::nullopt);
  changed_gradients();
  for (ShardedModel* model : owners_of(optimizer)) {
    for (at::Tensor& found : scaler->found_inf(optimizer)) {
      model->all_reduce(found, c10d::ReduceOp::MAX);
    }
  }
}

bool GradientState::any_step_was_skipped() const {
  return scaler && std::any_of(optimizers.begin(), optimizers.end(), [&](const auto& optimizer) {
           return scaler->step_was_skipped(*optimizer);
         });
}

}  // namespace muster
