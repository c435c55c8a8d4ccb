// Learning rates over a run, as values: what the rate is at a step, for any optimizer.
//
//   auto schedule = muster::cosine_schedule({.total_steps = 1000, .warmup_steps = 50});
//   muster::LrScheduler scheduler(optimizer, schedule);      // schedulers.h
//
// Each is a closed form of the step, so a run that resumes at step n has the rates of the one that
// was never interrupted. Those that Hugging Face's transformers and torch write as a closed form
// (LambdaLR, OneCycleLR, CosineAnnealingWarmRestarts) are bit-equal to Python; those that torch
// computes from the rate before (StepLR, ExponentialLR, …) agree with it to rounding. Steps count
// from 0; base_lr is the rate the group had when the scheduler was made. Factories throw
// std::invalid_argument that names the option and the value met. No torch; any thread.
// Source: transformers/optimization.py, torch/optim/lr_scheduler.py.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace muster {

// What a schedule may look at.
struct ScheduleInput {
  int64_t step = 0;
  double base_lr = 0;     // of the group
  double default_lr = 0;  // of the optimizer; that of the first group
};

struct ScheduleOutput {
  double lr = 0;
  std::optional<double> momentum = {};  // SGD's momentum or Adam's first beta
};

enum class PlateauMode { min, max };  // is a smaller or a larger metric better?
enum class ThresholdMode { relative, absolute };

struct ReduceOnPlateauOptions {
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;      // below 1: new rate = rate * factor
  int64_t patience = 10;    // metrics without improvement that are borne
  double threshold = 1e-4;  // what counts as an improvement
  ThresholdMode threshold_mode = ThresholdMode::relative;
  int64_t cooldown = 0;  // metrics that are not judged after a reduction
  double min_lr = 0;
  double eps = 1e-8;  // smaller reductions are left out
};

class Schedule {
 public:
  using Function = std::function<ScheduleOutput(const ScheduleInput&)>;

  // A schedule of one's own: the rate itself. See lambda_schedule for a factor.
  explicit Schedule(Function function) : function_(std::move(function)) {}

  ScheduleOutput at(const ScheduleInput& input) const { return function_(input); }
  // Whether at() also gives a momentum.
  bool cycles_momentum() const { return at({}).momentum.has_value(); }

  // For reduce_on_plateau_schedule: its options; at() then holds for the warm-up in front of it.
  const std::optional<ReduceOnPlateauOptions>& plateau() const { return plateau_; }
  int64_t plateau_warmup_steps() const { return plateau_warmup_steps_; }

 private:
  friend Schedule reduce_on_plateau_schedule(const ReduceOnPlateauOptions& options);
  friend Schedule with_warmup(int64_t steps, Schedule schedule, double start_factor);

  Function function_;
  std::optional<ReduceOnPlateauOptions> plateau_;
  int64_t plateau_warmup_steps_ = 0;
};

// ---- transformers' schedules: warm-up from 0 to base_lr, then … ----

struct ConstantScheduleOptions {
  int64_t warmup_steps = 0;
};
// … base_lr. get_constant_schedule, get_constant_schedule_with_warmup.
Schedule constant_schedule(const ConstantScheduleOptions& options = {});

struct LinearScheduleOptions {
  int64_t total_steps = 0;  // warm-up included; needed
  int64_t warmup_steps = 0;
};
// … linearly down to 0. get_linear_schedule_with_warmup.
Schedule linear_schedule(const LinearScheduleOptions& options);

struct CosineScheduleOptions {
  int64_t total_steps = 0;  // needed
  int64_t warmup_steps = 0;
  double num_cycles = 0.5;  // waves of the cosine; 0.5: from the top to the bottom once
  double min_lr_ratio = 0;  // the bottom, as a part of base_lr
};
// … along a cosine. get_cosine_schedule_with_warmup, get_cosine_with_min_lr_schedule_with_warmup.
Schedule cosine_schedule(const CosineScheduleOptions& options);

struct CosineWithRestartsOptions {
  int64_t total_steps = 0;  // needed
  int64_t warmup_steps = 0;
  double num_cycles = 1;  // hard restarts
};
// … along a cosine num_cycles times. get_cosine_with_hard_restarts_schedule_with_warmup.
Schedule cosine_with_restarts_schedule(const CosineWithRestartsOptions& options);

struct PolynomialScheduleOptions {
  int64_t total_steps = 0;  // needed
  int64_t warmup_steps = 0;
  double power = 1.0;
  double end_lr = 0;  // transformers' own default is 1e-7; below default_lr
};
// … along a power of the steps left. get_polynomial_decay_schedule_with_warmup; without warm-up
// and end_lr, torch's PolynomialLR.
Schedule polynomial_schedule(const PolynomialScheduleOptions& options);

// ---- torch's schedulers ----

struct LinearFactorOptions {
  double start_factor = 1.0 / 3;  // above 0, at most 1
  double end_factor = 1.0;        // 0 to 1
  int64_t total_iters = 5;
};
// LinearLR: base_lr times a factor that moves linearly.
Schedule linear_factor_schedule(const LinearFactorOptions& options);

struct StepScheduleOptions {
  int64_t step_size = 0;  // needed
  double gamma = 0.1;
};
// StepLR: base_lr * gamma^(step / step_size), whole divisions.
Schedule step_schedule(const StepScheduleOptions& options);

struct MultiStepScheduleOptions {
  std::vector<int64_t> milestones;  // steps at which the rate is multiplied by gamma
  double gamma = 0.1;
};
// MultiStepLR.
Schedule multi_step_schedule(const MultiStepScheduleOptions& options);

struct ExponentialScheduleOptions {
  double gamma = 0;  // needed
};
// ExponentialLR: base_lr * gamma^step.
Schedule exponential_schedule(const ExponentialScheduleOptions& options);

struct CosineAnnealingOptions {
  int64_t t_max = 0;  // steps to the bottom; needed. Beyond it the rate rises again
  double eta_min = 0;
};
// CosineAnnealingLR.
Schedule cosine_annealing_schedule(const CosineAnnealingOptions& options);

struct CosineWarmRestartsOptions {
  int64_t t_0 = 0;     // steps of the first cycle; needed
  int64_t t_mult = 1;  // each cycle is so many times as long as the one before
  double eta_min = 0;
};
// CosineAnnealingWarmRestarts.
Schedule cosine_warm_restarts_schedule(const CosineWarmRestartsOptions& options);

enum class Anneal { cos, linear };

struct OneCycleOptions {
  int64_t total_steps = 0;       // needed
  std::optional<double> max_lr;  // the peak; by default each group's base_lr
  double pct_start = 0.3;        // part of the steps that rises
  Anneal anneal = Anneal::cos;
  bool cycle_momentum = true;  // momentum falls while the rate rises, and back
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;         // first rate = max_lr / div_factor
  double final_div_factor = 1e4;  // last rate = first rate / final_div_factor
  bool three_phase = false;
};
// OneCycleLR. at() throws muster::Error beyond total_steps, as torch does. The scheduler throws
// std::invalid_argument when cycle_momentum meets an optimizer without momentum.
Schedule one_cycle_schedule(const OneCycleOptions& options);

// ReduceLROnPlateau: LrScheduler::step(metric) judges a metric, for example the validation loss.
Schedule reduce_on_plateau_schedule(const ReduceOnPlateauOptions& options = {});

// ---- Others ----

// LambdaLR: base_lr times factor(step).
Schedule lambda_schedule(std::function<double(int64_t step)> factor);

// `steps` steps from start_factor to the schedule's own first rate, linearly; then the schedule
// from its step 0. As SequentialLR with LinearLR in front. In front of reduce_on_plateau_schedule,
// step() moves the warm-up and step(metric) judges; a metric met during the warm-up reduces
// nothing.
Schedule with_warmup(int64_t steps, Schedule schedule, double start_factor = 0);

}  // namespace muster
