// The formulas, operation by operation as in the Python sources, so that they round the same way.
#include "muster/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr double kPi = std::numbers::pi;

double real(int64_t steps) { return static_cast<double>(steps); }

void require(bool good, const char* name, double value, const char* rule) {
  if (good) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                              ", but must be " + rule);
}

void require_steps(int64_t total, int64_t warmup) {
  require(total > 0, "total_steps", real(total), "1 or more");
  require(warmup >= 0 && warmup <= total, "warmup_steps", real(warmup),
          "0 or more and at most total_steps");
}

// transformers' warm-up, then factor(fraction of the remaining steps that is done).
template <typename Factor>
Schedule after_warmup(int64_t warmup, int64_t total, Factor factor) {
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    if (in.step < warmup) {
      return {in.base_lr * (real(in.step) / real(std::max<int64_t>(1, warmup)))};
    }
    const double progress = real(in.step - warmup) / real(std::max<int64_t>(1, total - warmup));
    return {in.base_lr * factor(progress)};
  });
}

}  // namespace

Schedule constant_schedule(const ConstantScheduleOptions& options) {
  require(options.warmup_steps >= 0, "warmup_steps", real(options.warmup_steps), "0 or more");
  return after_warmup(options.warmup_steps, 0, [](double) { return 1.0; });
}

Schedule linear_schedule(const LinearScheduleOptions& options) {
  require_steps(options.total_steps, options.warmup_steps);
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    const int64_t warmup = options.warmup_steps, total = options.total_steps;
    if (in.step < warmup) {
      return {in.base_lr * (real(in.step) / real(std::max<int64_t>(1, warmup)))};
    }
    const double left = real(total - in.step) / real(std::max<int64_t>(1, total - warmup));
    return {in.base_lr * std::max(0.0, left)};
  });
}

Schedule cosine_schedule(const CosineScheduleOptions& options) {
  require_steps(options.total_steps, options.warmup_steps);
  require(options.min_lr_ratio >= 0 && options.min_lr_ratio <= 1, "min_lr_ratio",
          options.min_lr_ratio, "between 0 and 1");
  return after_warmup(options.warmup_steps, options.total_steps, [=](double progress) {
    const double lowest = options.min_lr_ratio;
    const double wave = 0.5 * (1.0 + std::cos(kPi * options.num_cycles * 2.0 * progress));
    return std::max(0.0, wave * (1 - lowest) + lowest);
  });
}

Schedule cosine_with_restarts_schedule(const CosineWithRestartsOptions& options) {
  require_steps(options.total_steps, options.warmup_steps);
  require(options.num_cycles > 0, "num_cycles", options.num_cycles, "above 0");
  return after_warmup(options.warmup_steps, options.total_steps, [=](double progress) {
    if (progress >= 1.0) return 0.0;
    const double in_cycle = std::fmod(options.num_cycles * progress, 1.0);
    return std::max(0.0, 0.5 * (1.0 + std::cos(kPi * in_cycle)));
  });
}

Schedule polynomial_schedule(const PolynomialScheduleOptions& options) {
  require_steps(options.total_steps, options.warmup_steps);
  require(options.end_lr >= 0, "end_lr", options.end_lr, "0 or more");
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    const int64_t warmup = options.warmup_steps, total = options.total_steps;
    if (in.step < warmup) {
      return {in.base_lr * (real(in.step) / real(std::max<int64_t>(1, warmup)))};
    }
    if (in.step > total) return {in.base_lr * (options.end_lr / in.default_lr)};
    const double range = in.default_lr - options.end_lr;
    const double remaining =
        1 - real(in.step - warmup) / real(std::max<int64_t>(1, total - warmup));
    const double decay = range * std::pow(remaining, options.power) + options.end_lr;
    return {in.base_lr * (decay / in.default_lr)};
  });
}

Schedule linear_factor_schedule(const LinearFactorOptions& options) {
  require(options.start_factor > 0 && options.start_factor <= 1, "start_factor",
          options.start_factor, "above 0 and at most 1");
  require(options.end_factor >= 0 && options.end_factor <= 1, "end_factor", options.end_factor,
          "between 0 and 1");
  require(options.total_iters > 0, "total_iters", real(options.total_iters), "1 or more");
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    const double start = options.start_factor, end = options.end_factor;
    const double done = real(std::min(options.total_iters, in.step));
    return {in.base_lr * (start + (end - start) * done / real(options.total_iters))};
  });
}

Schedule step_schedule(const StepScheduleOptions& options) {
  require(options.step_size > 0, "step_size", real(options.step_size), "1 or more");
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    return {in.base_lr * std::pow(options.gamma, real(in.step / options.step_size))};
  });
}

Schedule multi_step_schedule(const MultiStepScheduleOptions& options) {
  std::vector<int64_t> milestones = options.milestones;
  std::sort(milestones.begin(), milestones.end());
  return Schedule([=, gamma = options.gamma](const ScheduleInput& in) -> ScheduleOutput {
    const auto passed =
        std::upper_bound(milestones.begin(), milestones.end(), in.step) - milestones.begin();
    return {in.base_lr * std::pow(gamma, real(passed))};
  });
}

Schedule exponential_schedule(const ExponentialScheduleOptions& options) {
  require(options.gamma > 0, "gamma", options.gamma, "above 0");
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    return {in.base_lr * std::pow(options.gamma, real(in.step))};
  });
}

Schedule cosine_annealing_schedule(const CosineAnnealingOptions& options) {
  require(options.t_max > 0, "t_max", real(options.t_max), "1 or more");
  return Schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    const double wave = 1 + std::cos(kPi * real(in.step) / real(options.t_max));
    return {options.eta_min + (in.base_lr - options.eta_min) * wave / 2};
  });
}

Schedule cosine_warm_restarts_schedule(const CosineWarmRestartsOptions& options) {
  require(options.t_0 > 0, "t_0", real(options.t_0), "1 or more");
  require(options.t_mult >= 1, "t_mult", real(options.t_mult), "1 or more");
  // Steps since the last restart, and from there to the next.
  const auto period = [=](int64_t step) {
    int64_t length = options.t_0, current = step;
    if (options.t_mult == 1) current %= length;
    while (current >= length) {
      current -= length;
      length *= options.t_mult;
    }
    return std::pair(current, length);
  };
  Schedule schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    const auto [current, length] = period(in.step);
    const double wave = 1 + std::cos(kPi * real(current) / real(length));
    return {options.eta_min + (in.base_lr - options.eta_min) * wave / 2};
  });
  schedule.python_state_ = [=](int64_t step, double) -> PythonScheduleState {
    const auto [current, length] = period(step);
    return {.counters = {{"T_cur", current}, {"T_i", length}}};
  };
  return schedule;
}

Schedule reduce_on_plateau_schedule(const ReduceOnPlateauOptions& options) {
  require(options.factor < 1, "factor", options.factor, "below 1");
  require(options.patience >= 0, "patience", real(options.patience), "0 or more");
  Schedule schedule([](const ScheduleInput& in) -> ScheduleOutput { return {in.base_lr}; });
  schedule.plateau_ = options;
  return schedule;
}

Schedule lambda_schedule(std::function<double(int64_t step)> factor) {
  return Schedule([factor = std::move(factor)](const ScheduleInput& in) -> ScheduleOutput {
    return {in.base_lr * factor(in.step)};
  });
}

Schedule with_warmup(int64_t steps, Schedule schedule, double start_factor) {
  require(steps >= 0, "warm-up steps", real(steps), "0 or more");
  require(start_factor >= 0 && start_factor <= 1, "start_factor", start_factor, "between 0 and 1");
  Schedule warmed([=, inner = schedule.function_](ScheduleInput in) -> ScheduleOutput {
    const int64_t step = in.step;
    in.step = std::max<int64_t>(0, step - steps);
    ScheduleOutput out = inner(in);
    if (step < steps) {
      out.lr *= start_factor + (1.0 - start_factor) * real(step) / real(steps);
    }
    return out;
  });
  if (schedule.last_step_) warmed.last_step_ = *schedule.last_step_ + steps;
  warmed.plateau_ = schedule.plateau_;
  warmed.plateau_warmup_steps_ = schedule.plateau_warmup_steps_;
  if (schedule.plateau_) warmed.plateau_warmup_steps_ += steps;
  return warmed;
}

// ---- One cycle ----

namespace {

double anneal(Anneal kind, double start, double end, double part) {
  if (kind == Anneal::linear) return (end - start) * part + start;
  return end + (start - end) / 2.0 * (std::cos(kPi * part) + 1);
}

struct Phase {
  double end_step;
  double start_lr, end_lr;
  double start_momentum, end_momentum;
};

std::vector<Phase> phases_of(const OneCycleOptions& options, double base_lr) {
  const double peak = options.max_lr.value_or(base_lr);
  const double first = peak / options.div_factor, last = first / options.final_div_factor;
  const double low = options.base_momentum, high = options.max_momentum;
  const double total = real(options.total_steps), start = options.pct_start;
  if (options.three_phase) {
    return {{start * total - 1, first, peak, high, low},
            {2 * start * total - 2, peak, first, low, high},
            {total - 1, first, last, high, high}};
  }
  return {{start * total - 1, first, peak, high, low}, {total - 1, peak, last, low, high}};
}

}  // namespace

Schedule one_cycle_schedule(const OneCycleOptions& options) {
  require(options.total_steps > 0, "total_steps", real(options.total_steps), "1 or more");
  require(options.pct_start >= 0 && options.pct_start <= 1, "pct_start", options.pct_start,
          "between 0 and 1");
  Schedule schedule([=](const ScheduleInput& in) -> ScheduleOutput {
    if (in.step > options.total_steps) {
      throw Error("the one-cycle schedule was called for step " + std::to_string(in.step) +
                  ", but has " + std::to_string(options.total_steps) +
                  " steps: raise total_steps, or step it less often");
    }
    const double step = real(in.step);
    const std::vector<Phase> phases = phases_of(options, in.base_lr);
    double start_step = 0.0;
    size_t i = 0;
    while (step > phases[i].end_step && i + 1 < phases.size()) start_step = phases[i++].end_step;
    const Phase& phase = phases[i];
    const double length = phase.end_step - start_step;
    const double part = length == 0 ? 1.0 : (step - start_step) / length;
    ScheduleOutput out{anneal(options.anneal, phase.start_lr, phase.end_lr, part)};
    if (options.cycle_momentum) {
      out.momentum = anneal(options.anneal, phase.start_momentum, phase.end_momentum, part);
    }
    return out;
  });
  schedule.last_step_ = options.total_steps;
  schedule.python_state_ = [=](int64_t, double base_lr) -> PythonScheduleState {
    const double peak = options.max_lr.value_or(base_lr), first = peak / options.div_factor;
    std::map<std::string, double> group = {
        {"initial_lr", first}, {"max_lr", peak}, {"min_lr", first / options.final_div_factor}};
    if (options.cycle_momentum) {
      group["base_momentum"] = options.base_momentum;
      group["max_momentum"] = options.max_momentum;
    }
    return {.group = group};
  };
  return schedule;
}

}  // namespace muster
