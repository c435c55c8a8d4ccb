#include "muster/optim/schedulers.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"

namespace muster {
namespace {

// Sets the momentum, or its equivalent, in a group's options; false if there is none.
bool set_momentum(torch::optim::Optimizer& optimizer, size_t group, double value) {
  if (auto* own = dynamic_cast<Optimizer*>(&optimizer)) {
    if (!own->has_momentum()) return false;
    own->set_momentum(group, value);
    return true;
  }
  torch::optim::OptimizerOptions& options = optimizer.param_groups()[group].options();
  if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) {
    sgd->momentum(value);
  } else if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropOptions*>(&options)) {
    rmsprop->momentum(value);
  } else if (auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&options)) {
    adam->betas({value, std::get<1>(adam->betas())});
  } else if (auto* adamw = dynamic_cast<torch::optim::AdamWOptions*>(&options)) {
    adamw->betas({value, std::get<1>(adamw->betas())});
  } else {
    return false;
  }
  return true;
}

at::Tensor as_tensor(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble);
}

at::Tensor saved(const TensorMap& state, const char* name, int64_t numbers) {
  const auto found = state.find(name);
  if (found == state.end()) {
    throw CheckpointError(std::string("the scheduler's saved state has no '") + name + "'");
  }
  if (found->second.numel() != numbers) {
    throw CheckpointError(std::string("the scheduler's saved ") + name + " has " +
                          std::to_string(found->second.numel()) + " values, but this optimizer " +
                          "needs " + std::to_string(numbers) + ": one per parameter group");
  }
  return found->second.to(at::kCPU);
}

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  const double* begin = values.const_data_ptr<double>();
  return {begin, begin + values.numel()};
}

}  // namespace

LrScheduler::LrScheduler(std::shared_ptr<torch::optim::Optimizer> optimizer, Schedule schedule)
    : optimizer_(std::move(optimizer)), schedule_(std::move(schedule)) {
  if (!optimizer_) throw std::invalid_argument("a scheduler needs an optimizer");
  for (auto& group : optimizer_->param_groups()) base_lrs_.push_back(group.options().get_lr());
  default_lr_ = optimizer_->defaults().get_lr();
  last_lr_ = base_lrs_;
  if (schedule_.plateau() && schedule_.plateau()->mode == PlateauMode::max) best_ = -best_;
  if (!schedule_.plateau() || schedule_.plateau_warmup_steps() > 0) apply();
}

void LrScheduler::set_rates(const std::vector<double>& rates) {
  auto& groups = optimizer_->param_groups();
  if (groups.size() != rates.size()) {
    throw Error("the optimizer has " + std::to_string(groups.size()) +
                " parameter groups, but had " + std::to_string(rates.size()) +
                " when the scheduler was created: create it after add_param_group");
  }
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
  last_lr_ = rates;
}

// Sets the rates of last_step.
void LrScheduler::apply() {
  std::vector<double> rates;
  std::vector<double> momentums;
  for (const double base : base_lrs_) {
    const ScheduleOutput out =
        schedule_.at({.step = last_step_, .base_lr = base, .default_lr = default_lr_});
    rates.push_back(out.lr);
    if (out.momentum) momentums.push_back(*out.momentum);
  }
  set_rates(rates);
  for (size_t i = 0; i < momentums.size(); ++i) {
    if (set_momentum(*optimizer_, i, momentums[i])) continue;
    throw std::invalid_argument(
        "the schedule cycles momentum, but the optimizer has neither a momentum nor a first beta: "
        "set .cycle_momentum = false, or use SGD, Adam or AdamW");
  }
}

void LrScheduler::step() {
  const auto& plateau = schedule_.plateau();
  if (plateau && schedule_.plateau_warmup_steps() == 0) {
    throw std::invalid_argument("reduce_on_plateau_schedule needs a metric: call step(metric)");
  }
  ++last_step_;
  // After the warm-up only metrics change the rate.
  if (!plateau || last_step_ <= schedule_.plateau_warmup_steps()) apply();
}

void LrScheduler::step(double metric) {
  if (!schedule_.plateau()) {
    throw std::invalid_argument(
        "only reduce_on_plateau_schedule accepts a metric: call step() without one");
  }
  if (schedule_.plateau_warmup_steps() == 0) ++last_step_;
  judge(metric);
}

bool LrScheduler::is_better(double metric) const {
  const ReduceOnPlateauOptions& options = *schedule_.plateau();
  const bool smaller = options.mode == PlateauMode::min;
  if (options.threshold_mode == ThresholdMode::relative) {
    return smaller ? metric < best_ * (1.0 - options.threshold)
                   : metric > best_ * (options.threshold + 1.0);
  }
  return smaller ? metric < best_ - options.threshold : metric > best_ + options.threshold;
}

void LrScheduler::judge(double metric) {
  const ReduceOnPlateauOptions& options = *schedule_.plateau();
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (last_step_ < schedule_.plateau_warmup_steps()) num_bad_epochs_ = 0;
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  std::vector<double> rates;
  for (auto& group : optimizer_->param_groups()) rates.push_back(group.options().get_lr());
  if (num_bad_epochs_ > options.patience) {
    for (double& rate : rates) {
      const double reduced = std::max(rate * options.factor, options.min_lr);
      if (rate - reduced > options.eps) rate = reduced;
    }
    cooldown_counter_ = options.cooldown;
    num_bad_epochs_ = 0;
  }
  set_rates(rates);
}

TensorMap LrScheduler::state() const {
  TensorMap state = {{"last_step", torch::tensor(last_step_, at::kLong)},
                     {"base_lrs", as_tensor(base_lrs_)},
                     {"default_lr", torch::tensor(default_lr_, at::kDouble)},
                     {"last_lr", as_tensor(last_lr_)}};
  if (schedule_.plateau()) {
    state["best"] = torch::tensor(best_, at::kDouble);
    state["num_bad_epochs"] = torch::tensor(num_bad_epochs_, at::kLong);
    state["cooldown_counter"] = torch::tensor(cooldown_counter_, at::kLong);
  }
  return state;
}

void LrScheduler::load_state(const TensorMap& state) {
  const auto groups = static_cast<int64_t>(optimizer_->param_groups().size());
  const bool plateau = schedule_.plateau().has_value();
  const at::Tensor last_step = saved(state, "last_step", 1);
  const at::Tensor base_lrs = saved(state, "base_lrs", groups);
  const at::Tensor default_lr = saved(state, "default_lr", 1);
  const at::Tensor last_lr = saved(state, "last_lr", groups);
  if (plateau) {
    const double best = saved(state, "best", 1).item<double>();
    const int64_t bad = saved(state, "num_bad_epochs", 1).item<int64_t>();
    cooldown_counter_ = saved(state, "cooldown_counter", 1).item<int64_t>();
    best_ = best;
    num_bad_epochs_ = bad;
  }
  last_step_ = last_step.item<int64_t>();
  base_lrs_ = numbers_of(base_lrs);
  default_lr_ = default_lr.item<double>();
  if (!plateau) apply();
  set_rates(numbers_of(last_lr));
}

}  // namespace muster
