// Learning-rate schedules as values: the rate as a function of the step, for any optimizer.
//
//   auto schedule = muster::cosine_schedule({.total_steps = 1000, .warmup_steps = 50});
//   muster::LrScheduler scheduler(optimizer, schedule);      // schedulers.h
//
// Each is a closed form of the step, so a run that resumes at step n has the same rates as an
// uninterrupted one. Schedules that Hugging Face's transformers and torch write in closed form
// (LambdaLR, OneCycleLR, CosineAnnealingWarmRestarts) are bit-identical to Python; those that torch
// computes recursively (StepLR, ExponentialLR, …) agree up to rounding. Steps count from 0; base_lr
// is the group's rate when the scheduler was constructed. Factories throw std::invalid_argument
// naming the option and its value. No torch; any thread. Source: transformers/optimization.py,
// torch/optim/lr_scheduler.py.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// What a schedule may depend on.
struct ScheduleInput {
  int64_t step = 0;
  double base_lr = 0;     // of the group
  double default_lr = 0;  // of the optimizer: its first group's
};

struct ScheduleOutput {
  double lr = 0;
  std::optional<double> momentum = {};  // SGD's momentum or Adam's first beta
};

enum class PlateauMode { min, max };  // whether a smaller or a larger metric is better
enum class ThresholdMode { relative, absolute };

struct ReduceOnPlateauOptions {
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;      // below 1: new rate = rate * factor
  int64_t patience = 10;    // metrics without improvement that are tolerated
  double threshold = 1e-4;  // the smallest change that counts as an improvement
  ThresholdMode threshold_mode = ThresholdMode::relative;
  int64_t cooldown = 0;  // metrics that are ignored after a reduction
  double min_lr = 0;
  double eps = 1e-8;  // smaller reductions are skipped
};

struct OneCycleOptions;
struct CosineWarmRestartsOptions;

// What Python's scheduler of the same kind keeps besides its step and rates, for files that Python
// reads (muster/interchange/torch_files.h).
struct PythonScheduleState {
  std::map<std::string, int64_t> counters = {};  // of the scheduler: T_cur and T_i
  std::map<std::string, double> group = {};      // in each of the optimizer's groups: max_lr
};

class Schedule {
 public:
  using Function = std::function<ScheduleOutput(const ScheduleInput&)>;

  // A custom schedule that returns the rate itself. For a factor, see lambda_schedule.
  explicit Schedule(Function function) : function_(std::move(function)) {}

  ScheduleOutput at(const ScheduleInput& input) const { return function_(input); }
  // Whether at() also gives a momentum.
  bool cycles_momentum() const { return at({}).momentum.has_value(); }

  // The last step that at() takes; none: any.
  const std::optional<int64_t>& last_step() const { return last_step_; }

  // For reduce_on_plateau_schedule: its options; at() then applies to the warm-up before it.
  const std::optional<ReduceOnPlateauOptions>& plateau() const { return plateau_; }
  int64_t plateau_warmup_steps() const { return plateau_warmup_steps_; }

  // At a step, for a group of this base_lr.
  PythonScheduleState python_state(int64_t step, double base_lr) const {
    return python_state_ ? python_state_(step, base_lr) : PythonScheduleState{};
  }

 private:
  friend Schedule cosine_warm_restarts_schedule(const CosineWarmRestartsOptions& options);
  friend Schedule one_cycle_schedule(const OneCycleOptions& options);
  friend Schedule reduce_on_plateau_schedule(const ReduceOnPlateauOptions& options);
  friend Schedule with_warmup(int64_t steps, Schedule schedule, double start_factor);

  Function function_;
  std::optional<int64_t> last_step_;
  std::optional<ReduceOnPlateauOptions> plateau_;
  int64_t plateau_warmup_steps_ = 0;
  std::function<PythonScheduleState(int64_t step, double base_lr)> python_state_;
};

// ---- transformers' schedules: warm-up from 0 to base_lr, then … ----

struct ConstantScheduleOptions {
  int64_t warmup_steps = 0;
};
// … base_lr. get_constant_schedule, get_constant_schedule_with_warmup.
Schedule constant_schedule(const ConstantScheduleOptions& options = {});

struct LinearScheduleOptions {
  int64_t total_steps = 0;  // including the warm-up; required
  int64_t warmup_steps = 0;
};
// … linearly down to 0. get_linear_schedule_with_warmup.
Schedule linear_schedule(const LinearScheduleOptions& options);

struct CosineScheduleOptions {
  int64_t total_steps = 0;  // required
  int64_t warmup_steps = 0;
  double num_cycles = 0.5;  // periods of the cosine; 0.5: from the top to the bottom once
  double min_lr_ratio = 0;  // the lowest rate, as a fraction of base_lr
};
// … along a cosine. get_cosine_schedule_with_warmup, get_cosine_with_min_lr_schedule_with_warmup.
Schedule cosine_schedule(const CosineScheduleOptions& options);

struct CosineWithRestartsOptions {
  int64_t total_steps = 0;  // required
  int64_t warmup_steps = 0;
  double num_cycles = 1;  // hard restarts
};
// … along a cosine num_cycles times. get_cosine_with_hard_restarts_schedule_with_warmup.
Schedule cosine_with_restarts_schedule(const CosineWithRestartsOptions& options);

struct PolynomialScheduleOptions {
  int64_t total_steps = 0;  // required
  int64_t warmup_steps = 0;
  double power = 1.0;
  double end_lr = 0;  // must be below default_lr; transformers' default is 1e-7
};
// … along a power of the remaining steps. get_polynomial_decay_schedule_with_warmup; without
// warm-up and end_lr, torch's PolynomialLR.
Schedule polynomial_schedule(const PolynomialScheduleOptions& options);

// ---- torch's schedulers ----

struct LinearFactorOptions {
  double start_factor = 1.0 / 3;  // above 0, at most 1
  double end_factor = 1.0;        // 0 to 1
  int64_t total_iters = 5;
};
// LinearLR: base_lr times a factor that changes linearly.
Schedule linear_factor_schedule(const LinearFactorOptions& options);

struct StepScheduleOptions {
  int64_t step_size = 0;  // required
  double gamma = 0.1;
};
// StepLR: base_lr * gamma^(step / step_size), with integer division.
Schedule step_schedule(const StepScheduleOptions& options);

struct MultiStepScheduleOptions {
  std::vector<int64_t> milestones;  // steps at which the rate is multiplied by gamma
  double gamma = 0.1;
};
// MultiStepLR.
Schedule multi_step_schedule(const MultiStepScheduleOptions& options);

struct ExponentialScheduleOptions {
  double gamma = 0;  // required
};
// ExponentialLR: base_lr * gamma^step.
Schedule exponential_schedule(const ExponentialScheduleOptions& options);

struct CosineAnnealingOptions {
  int64_t t_max = 0;  // steps to the lowest rate; required. After it the rate rises again
  double eta_min = 0;
};
// CosineAnnealingLR.
Schedule cosine_annealing_schedule(const CosineAnnealingOptions& options);

struct CosineWarmRestartsOptions {
  int64_t t_0 = 0;     // steps of the first cycle; required
  int64_t t_mult = 1;  // the ratio of each cycle's length to the previous one's
  double eta_min = 0;
};
// CosineAnnealingWarmRestarts.
Schedule cosine_warm_restarts_schedule(const CosineWarmRestartsOptions& options);

enum class Anneal { cos, linear };

struct OneCycleOptions {
  int64_t total_steps = 0;       // required
  std::optional<double> max_lr;  // the peak; by default each group's base_lr
  double pct_start = 0.3;        // the fraction of steps in which the rate rises
  Anneal anneal = Anneal::cos;
  bool cycle_momentum = true;  // momentum falls while the rate rises, and vice versa
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;         // first rate = max_lr / div_factor
  double final_div_factor = 1e4;  // last rate = first rate / final_div_factor
  bool three_phase = false;
};
// OneCycleLR. at() throws muster::Error past total_steps, as torch does. LrScheduler throws
// std::invalid_argument if cycle_momentum is set and the optimizer has no momentum.
Schedule one_cycle_schedule(const OneCycleOptions& options);

// ReduceLROnPlateau: LrScheduler::step(metric) evaluates a metric, for example the validation loss.
Schedule reduce_on_plateau_schedule(const ReduceOnPlateauOptions& options = {});

// ---- Others ----

// LambdaLR: base_lr times factor(step).
Schedule lambda_schedule(std::function<double(int64_t step)> factor);

// Linear warm-up over `steps` steps, from start_factor times the schedule's first rate to that
// rate; then the schedule from its step 0. Like SequentialLR starting with LinearLR. Before
// reduce_on_plateau_schedule, step() advances the warm-up and step(metric) evaluates the metric; a
// metric during the warm-up never reduces the rate.
Schedule with_warmup(int64_t steps, Schedule schedule, double start_factor = 0);

}  // namespace muster
