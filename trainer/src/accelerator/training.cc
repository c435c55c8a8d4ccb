// Backward, accumulation windows, gradients, random numbers; see muster/accelerator/accelerator.h.
#include <algorithm>
#include <cmath>

#include "accelerator/state.h"
#include "muster/base/errors.h"
#include "muster/device/random_state.h"
#include "parallel/call_name.h"
#include "parallel/communication_time.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

constexpr int64_t kTimesEveryNs = 1'000'000'000;

}  // namespace

void Accelerator::backward(const at::Tensor& loss) {
  GradientState& gradients = *state_->gradients;
  const auto section = gradients.timer.measure(StepPart::backward);
  const CallName name("backward");
  at::Tensor root = gradients.loss_divisor == 1 ? loss : loss / gradients.loss_divisor;
  if (gradients.scaler) root = gradients.scaler->scale(root);
  for (const auto& model : state_->models) model->before_backward(root);
  for (const auto& model : gradients.sharded) model->begin_backward();
  const int64_t begin_ns = CommunicationTime::now_ns();
  root.backward();
  CommunicationTime::of_thread().add_hidden_wait(begin_ns);
  gradients.end_backward();
}

void Accelerator::check_loss(const at::Tensor& loss, int64_t step) {
  // The sum is finite only if all elements are: a double does not overflow from float32 values.
  const double own = loss.detach().cpu().to(at::kDouble).sum().item<double>();
  const std::vector<double> values = gather(own);
  std::string which;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    if (std::isfinite(values[rank])) continue;
    // The sign of a NaN means nothing.
    const std::string value = std::isnan(values[rank]) ? "nan" : std::to_string(values[rank]);
    which += (which.empty() ? "" : ", ") + value + " on rank " + std::to_string(rank);
  }
  if (which.empty()) return;
  throw NonFiniteLossError("the loss of step " + std::to_string(step) + " is not finite: " + which +
                           " (of " + std::to_string(values.size()) +
                           (values.size() == 1 ? " rank)" : " ranks)"));
}

Accelerator::Accumulation::Accumulation(Accelerator& accelerator,
                                        std::vector<DataParallel*> models) {
  State& state = *accelerator.state_;
  if (models.empty()) {
    for (const auto& model : state.models) models.push_back(model.get());
  }
  state.gradients->begin_micro_batch();
  const bool reduces =
      state.gradients->sync_gradients || state.gradients->accumulation.sync_each_batch;
  for (DataParallel* model : models) {
    models_.emplace_back(model->shared_state(), model->synchronizing());
    if (!reduces) model->set_synchronizing(false);
  }
}

Accelerator::Accumulation::~Accumulation() {
  for (const auto& [model, before] : models_) model->synchronizing = before;
}

bool Accelerator::sync_gradients() const { return state_->gradients->sync_gradients; }

int Accelerator::gradient_accumulation_steps() const {
  return state_->gradients->accumulation.num_steps;
}

void Accelerator::set_gradient_accumulation_steps(int steps) {
  state_->gradients->set_accumulation_steps(steps);
}

BatchPlan Accelerator::plan_batch(const BatchContract& contract) {
  const BatchPlan plan = muster::plan_batch(contract, num_processes());
  if (is_main_process()) print(plan.equation());
  set_gradient_accumulation_steps(static_cast<int>(plan.accumulation_steps));
  return plan;
}

Autocast Accelerator::autocast() const {
  return Autocast(device().type(), state_->precision, state_->options.autocast);
}

GradScaler* Accelerator::scaler() {
  return state_->gradients->scaler ? &*state_->gradients->scaler : nullptr;
}

void Accelerator::unscale_gradients() {
  GradientState& gradients = *state_->gradients;
  if (!gradients.scaler) return;
  gradients.end_backward();
  state_->follow_groups();
  for (const auto& optimizer : gradients.optimizers) gradients.unscale(*optimizer);
}

void Accelerator::State::unscale_owners(const std::vector<at::Tensor>& parameters) {
  gradients->end_backward();
  follow_groups();
  if (!gradients->scaler) return;
  std::set<const c10::TensorImpl*> stepped;
  for (const at::Tensor& tensor : stepped_tensors(parameters)) {
    stepped.insert(tensor.unsafeGetTensorImpl());
  }
  for (const auto& optimizer : gradients->optimizers) {
    bool is_owner = gradients->update_scale_at_each_step;  // Accelerate unscales them all
    for (const auto& group : optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        is_owner |= stepped.contains(parameter.unsafeGetTensorImpl());
      }
    }
    if (is_owner) gradients->unscale(*optimizer);
  }
}

at::Tensor Accelerator::clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                                        double norm_type) {
  const auto section = state_->gradients->timer.measure(StepPart::optimizer);
  state_->unscale_owners(parameters);
  return state_->clip_grad_norm(parameters, max_norm, norm_type);
}

void Accelerator::clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  state_->unscale_owners(parameters);
  muster::clip_grad_value_(state_->gradients->gradient_holders(parameters), clip_value);
  state_->gradients->changed_gradients();
}

bool Accelerator::optimizer_step_was_skipped() const {
  return state_->gradients->any_step_was_skipped();
}

void Accelerator::set_seed(uint64_t seed, bool device_specific, bool deterministic) {
  const auto offset = device_specific ? static_cast<uint64_t>(process_index()) : 0;
  muster::set_seed(seed, {.offset = offset, .deterministic = deterministic});
}

void Accelerator::synchronize_rng_states() { state_->collectives->synchronize_rng_states(); }

int64_t Accelerator::find_executable_batch_size(int64_t starting_batch_size,
                                                const std::function<void(int64_t batch_size)>& fn) {
  return muster::find_executable_batch_size(
      fn, {.starting_batch_size = starting_batch_size,
           .any_rank = [this](bool own) { return state_->collectives->any_rank(own); }});
}

StepTimer& Accelerator::step_timer() { return state_->gradients->timer; }

void Accelerator::State::end_step() {
  StepTimer& timer = gradients->timer;
  timer.end_step();
  if (timer.steps() == 1) prepare_saving();
  log_step_times();
}

void Accelerator::State::log_step_times() {
  const StepTimer& timer = gradients->timer;
  const int64_t step = steps_before + timer.steps();
  const int64_t every = options.log_step_times_every;
  if (every == 0) {
    // A file that the caller chose gets what the caller logs.
    if (worker.socket_path.empty() || !options.metrics_file.empty()) return;
    const int64_t now = CommunicationTime::now_ns();
    if (now - times_logged_ns < kTimesEveryNs) return;
    times_logged_ns = now;
    reporter.log(timer.metrics(), step);
  } else if (every > 0 && step % every == 0 && topology.rank == 0) {
    const std::vector<ScalarValue> times = timer.metrics();
    reporter.log(times, step);
    if (trackers && trackers_started) trackers->log(times, {.step = step});
  }
}

}  // namespace muster
