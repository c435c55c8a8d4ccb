// Implements the handles that prepare() returns; see prepared.h.
#include "muster/accelerator/prepared.h"

#include <stdexcept>

#include "accelerator/gradient_state.h"
#include "muster/optim/optimizers.h"
#include "sharding/sharded_model.h"

namespace muster {
ModelFrame::ModelFrame(std::shared_ptr<DataParallel> data_parallel,
                       std::shared_ptr<ShardedModel> sharded, const Options& options,
                       std::shared_ptr<GradientState> gradient_state)
    : data_parallel_(std::move(data_parallel)),
      sharded_(std::move(sharded)),
      options_(options),
      gradient_state_(std::move(gradient_state)) {}

bool ModelFrame::changes_outputs() const {
  return options_.precision != Precision::fp32 || data_parallel_->needs_outputs();
}

ModelFrame::Pass::Pass(ModelFrame& frame)
    : frame_(frame), section_(frame.gradient_state_->timer.measure(StepPart::forward)) {
  if (torch::GradMode::is_enabled() && frame_.data_parallel_->follow_parameters() &&
      frame_.sharded_) {
    frame_.sharded_->follow_parameters();
  }
  if (frame_.sharded_) frame_.sharded_->meet_for_forward();
  ++frame_.gradient_state_->forward_passes;
  frame_.data_parallel_->before_forward();
  if (frame_.sharded_) frame_.sharded_->before_forward();
  if (frame_.options_.precision != Precision::fp32) {
    autocast_.emplace(frame_.options_.device_type, frame_.options_.precision,
                      frame_.options_.autocast);
  }
}

std::vector<at::Tensor> ModelFrame::Pass::finish(std::vector<at::Tensor> outputs) {
  autocast_.reset();
  if (frame_.options_.precision != Precision::fp32) outputs = convert_to_fp32(outputs);
  if (frame_.sharded_) frame_.sharded_->after_forward();
  DataParallel& data_parallel = *frame_.data_parallel_;
  data_parallel.after_forward(outputs);
  if (data_parallel.needs_outputs()) outputs = data_parallel.wrap_outputs(std::move(outputs));
  return outputs;
}

FullParameters::FullParameters(std::shared_ptr<ModelFrame> frame) : frame_(std::move(frame)) {
  if (frame_->sharded()) frame_->sharded()->hold_unsharded();
}

FullParameters::~FullParameters() {
  if (frame_->sharded()) frame_->sharded()->end_unsharded();
}

void require_on(at::Device device, const torch::nn::Module& module) {
  const auto require = [&](const at::Tensor& tensor) {
    const at::Device place = tensor.device();
    // "cuda" is any of its devices.
    if (place.type() == device.type() && (!device.has_index() || place == device)) return;
    throw std::invalid_argument("model.to(" + device.str() + "): prepare() has placed it on " +
                                place.str() +
                                ": choose another device by AcceleratorOptions::device or cpu");
  };
  for (const at::Tensor& parameter : module.parameters()) require(parameter);
  for (const at::Tensor& buffer : module.buffers()) require(buffer);
}

PreparedOptimizer::PreparedOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer,
                                     std::shared_ptr<GradientState> gradient_state)
    : optimizer_(std::move(optimizer)), gradient_state_(std::move(gradient_state)) {}

void PreparedOptimizer::step() const {
  GradientState& state = *gradient_state_;
  if (!state.sync_gradients) return;
  state.require_prepared(*optimizer_);
  state.require_forward_pass(*optimizer_);
  ++state.optimizer_steps;
  {
    const auto section = state.timer.measure(StepPart::optimizer);
    state.end_backward();
    if (state.follow_groups) state.follow_groups(*optimizer_);
    if (state.require_averaged) state.require_averaged(*optimizer_);
    if (state.scaler) {
      // A second step after one backward.
      if (state.scaler->has_stepped(*optimizer_)) state.scaler->apply_update();
      if (!state.owners_of(*optimizer_).empty()) state.unscale(*optimizer_);
      state.scaler->step(*optimizer_);
      if (state.update_scale_at_each_step) {
        state.scaler->update();
      } else {
        state.scaler->update_later();
      }
    } else {
      optimizer_->step();
    }
    for (ShardedModel* model : state.owners_of(*optimizer_)) model->publish();
  }
  end_step();
}

// With several optimizers, a step of the run ends with the first one's.
void PreparedOptimizer::end_step() const {
  GradientState& state = *gradient_state_;
  if (state.after_step && state.optimizers.front() == optimizer_) state.after_step();
}

at::Tensor PreparedOptimizer::evaluate(const std::function<at::Tensor()>& closure) const {
  GradientState& state = *gradient_state_;
  const at::AutoGradMode with_gradients(true);
  if (state.meet_in_step) state.meet_in_step("another evaluation");
  // The optimizer may have moved the weights: since the evaluation before, or before the first one.
  for (ShardedModel* model : state.owners_of(*optimizer_)) model->publish();
  const at::Tensor loss = closure();
  if (!loss.defined() || loss.numel() != 1) {
    throw std::invalid_argument(
        "optimizer.step(closure): the closure returned " +
        (loss.defined() ? c10::str("a tensor of shape ", loss.sizes()) : "an undefined tensor") +
        ": let it return the loss, one number");
  }
  state.require_forward_pass(*optimizer_);
  state.end_backward();
  if (state.require_averaged) state.require_averaged(*optimizer_);
  return state.mean_over_ranks ? state.mean_over_ranks(loss.detach()) : loss.detach();
}

at::Tensor PreparedOptimizer::step_by(const std::function<at::Tensor()>& closure) const {
  GradientState& state = *gradient_state_;
  state.require_prepared(*optimizer_);
  state.require_closures();
  ++state.optimizer_steps;
  at::Tensor loss;
  {
    const auto section = state.timer.measure(StepPart::optimizer);
    // Not while the optimizer goes through its parameters.
    if (state.follow_groups) state.follow_groups(*optimizer_);
    loss = optimizer_->step([&] { return evaluate(closure); });
    if (state.meet_in_step) state.meet_in_step("the end of the step");
    for (ShardedModel* model : state.owners_of(*optimizer_)) model->publish();
  }
  end_step();
  return loss;
}

void PreparedOptimizer::zero_grad(bool set_to_none) const {
  if (!gradient_state_->sync_gradients) return;
  zero_gradients(*optimizer_, set_to_none);
  for (ShardedModel* model : gradient_state_->owners_of(*optimizer_)) model->zero_grad(*optimizer_);
}

bool PreparedOptimizer::step_was_skipped() const {
  return gradient_state_->scaler && gradient_state_->scaler->step_was_skipped(*optimizer_);
}

PreparedScheduler::PreparedScheduler(std::shared_ptr<LrScheduler> scheduler,
                                     std::shared_ptr<GradientState> gradient_state)
    : scheduler_(std::move(scheduler)), gradient_state_(std::move(gradient_state)) {}

// Source: accelerate/scheduler.py, AcceleratedScheduler.step.
int PreparedScheduler::steps_due() const {
  if (!gradient_state_->step_scheduler_with_optimizer) return 1;
  if (!gradient_state_->sync_gradients) return 0;
  // Another optimizer's skip is not this schedule's.
  const auto& scaler = gradient_state_->scaler;
  if (scaler && scaler->step_was_skipped(scheduler_->optimizer())) return 0;
  return gradient_state_->scheduler_steps;
}

void PreparedScheduler::step() const {
  const bool may_end =
      gradient_state_->step_scheduler_with_optimizer && gradient_state_->stop_schedule_at_end;
  for (int i = steps_due(); i > 0; --i) {
    if (may_end && scheduler_->at_end()) return;
    scheduler_->step();
  }
}

void PreparedScheduler::step(double metric) const {
  for (int i = steps_due(); i > 0; --i) scheduler_->step(metric);
}

}  // namespace muster
