// Applies a Schedule to an optimizer.
//
//   muster::LrScheduler scheduler(optimizer, muster::cosine_schedule({.total_steps = 1000}));
//   optimizer->step();
//   scheduler.step();
//
// Works on Muster's optimizers and on torch::optim's. Training thread only; nothing is collective:
// every rank computes the same rates. Source: torch/optim/lr_scheduler.py.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "muster/checkpoint/safetensors.h"
#include "muster/optim/schedule.h"

namespace muster {

class LrScheduler {
 public:
  // Takes each group's learning rate as its base_lr and sets the rate of step 0. Throws
  // std::invalid_argument if the schedule cycles momentum and the optimizer has none.
  LrScheduler(std::shared_ptr<torch::optim::Optimizer> optimizer, Schedule schedule);

  // Call after each optimizer step: advances to the next learning rate. Throws
  // std::invalid_argument for a reduce_on_plateau_schedule without warm-up, which needs a metric;
  // muster::Error if groups were added to the optimizer since the scheduler was constructed.
  void step();
  // For reduce_on_plateau_schedule: evaluates a metric, which must have the same value on every
  // rank. Throws std::invalid_argument for any other schedule.
  void step(double metric);

  // The rate of each group, as last set.
  const std::vector<double>& get_last_lr() const { return last_lr_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  const Schedule& schedule() const { return schedule_; }
  // Steps since the start; 0 at first.
  int64_t last_step() const { return last_step_; }
  // The schedule has no further step: step() would throw.
  bool at_end() const { return last_step_ >= schedule_.last_step().value_or(INT64_MAX); }

  // CPU tensors: last_step (int64, 0-d), base_lrs and last_lr (float64, [groups]), default_lr
  // (float64, 0-d); with a plateau also best (float64), num_bad_epochs and cooldown_counter
  // (int64), 0-d.
  TensorMap state() const;
  // Restores the state and sets the optimizer's rates. Throws CheckpointError if a tensor is
  // missing or the number of groups differs.
  void load_state(const TensorMap& state);

 private:
  void apply();
  void set_rates(const std::vector<double>& rates);
  void judge(double metric);
  bool is_better(double metric) const;

  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Schedule schedule_;
  std::vector<double> base_lrs_;
  double default_lr_ = 0;
  std::vector<double> last_lr_;
  int64_t last_step_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t num_bad_epochs_ = 0;
  int64_t cooldown_counter_ = 0;
};

}  // namespace muster
