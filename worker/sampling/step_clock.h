// How long a rank's steps take, from the times at which it reported them. Pure.
#pragma once

#include <cstdint>

namespace muster::worker {

class StepClock {
 public:
  void Note(int64_t step, int64_t now_ms) {
    // Steps only grow within an attempt, so a lower number counts something else, such as epochs.
    if (has_step_ && step <= step_) return;
    if (!has_step_) *this = StepClock(step, now_ms);
    step_ = step;
    at_ms_ = now_ms;
  }
  // The mean since the step of the previous sample. 0: not known yet.
  float TakeStepMs() {
    if (step_ > base_step_ && at_ms_ > base_ms_) {
      step_ms_ = static_cast<float>(at_ms_ - base_ms_) / static_cast<float>(step_ - base_step_);
      base_step_ = step_;
      base_ms_ = at_ms_;
    }
    return step_ms_;
  }
  int64_t step() const { return step_; }

  StepClock() = default;

 private:
  StepClock(int64_t step, int64_t now_ms)
      : has_step_(true), step_(step), at_ms_(now_ms), base_step_(step), base_ms_(now_ms) {}

  bool has_step_ = false;
  int64_t step_ = 0;
  int64_t at_ms_ = 0;
  int64_t base_step_ = 0;
  int64_t base_ms_ = 0;
  float step_ms_ = 0;
};

}  // namespace muster::worker
