// Breaks down the time of a training step: data wait, forward, backward, optimizer, communication,
// checkpointing.
//
//   muster::StepTimer timer({.window = 100});
//   while (training) {
//     { auto section = timer.measure(muster::StepPart::data_wait); batch = next(); }
//     { auto section = timer.measure(muster::StepPart::compute); forward_and_backward(batch); }
//     timer.end_step();
//   }
//
// A section costs two clock reads (about 0.1 us). Measures host time: on an asynchronous device, a
// section that does not wait for the device ends before its kernels do, and their time shows up
// where the host next waits. Training thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/tracking/tracker.h"

namespace muster {

// compute: time that is not divided into forward, backward and optimizer.
enum class StepPart { data_wait, compute, communication, checkpoint, forward, backward, optimizer };
inline constexpr size_t kStepParts = 7;

// Seconds of one step.
struct StepTimes {
  std::array<double, kStepParts> parts{};  // indexed by StepPart
  double total = 0;                        // from the end of the previous step to this one's

  double operator[](StepPart part) const { return parts[static_cast<size_t>(part)]; }
  double other() const;  // the part of the total outside all sections; never negative
};

// Seconds per step over a window. Percentiles are nearest-rank: p95 is the smallest value that at
// least 95 % of the steps do not exceed.
struct TimeStatistics {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double max = 0;
};

struct StepTimeSummary {
  size_t steps = 0;  // in the window
  TimeStatistics total;
  std::array<TimeStatistics, kStepParts> parts;  // indexed by StepPart
  TimeStatistics other;

  const TimeStatistics& operator[](StepPart part) const { return parts[static_cast<size_t>(part)]; }
  // One line of at most 80 columns, for example
  // "5.2 ms/step (p95 6.02, max 9.87) | data 3% compute 88% comm 7% ckpt 0% other 2%"
  // or, where these are measured, "5.2 ms/step | data 3% fwd 30% bwd 53% opt 5% comm 7% …".
  // If the line would be wider, max and p95 are omitted.
  std::string line() const;
};

struct StepTimerOptions {
  size_t window = 100;  // number of steps that summary() covers; at least 1
  // Nanoseconds of a monotonic clock. Empty: std::chrono::steady_clock.
  std::function<int64_t()> now_ns = {};
  // A counter of the nanoseconds for which the training thread has waited for other ranks; it never
  // decreases. Its growth counts as communication, not toward the section in which it happens.
  std::function<int64_t()> communication_ns = {};
};

class StepTimer {
 public:
  // Measures until it is destroyed. Sections may be nested; the inner one's time is not counted in
  // the outer one's. Sections must end in reverse order.
  class Section {
   public:
    ~Section() { timer_.end_section(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    friend class StepTimer;
    Section(StepTimer& timer, StepPart part) : timer_(timer) { timer_.begin_section(part); }
    StepTimer& timer_;
  };

  explicit StepTimer(StepTimerOptions options = {});

  [[nodiscard]] Section measure(StepPart part) { return Section(*this, part); }
  // Adds time that was measured elsewhere and has just passed, in seconds. Inside a section it
  // counts toward `part` instead of the section's part.
  void add(StepPart part, double seconds);

  // Ends the step. An open section is split here between this step and the next. Everything since
  // the end of the previous step (the first time: since construction or restart()) belongs to this
  // step.
  StepTimes end_step();
  // Discards the time since the last end_step(), for example an evaluation.
  void restart();

  int64_t steps() const { return steps_; }  // ended so far
  // Over the last `window` steps; steps == 0 if there were none.
  StepTimeSummary summary() const;
  // Means over the window as metrics: "time/step", "time/data_wait", "time/communication",
  // "time/checkpoint", "time/other", in seconds, and "time/step_p95"; "time/forward",
  // "time/backward", "time/optimizer" if any of these was measured; "time/compute" if it was, or
  // none of them. The names are static.
  std::vector<ScalarValue> metrics() const;

 private:
  struct Open {
    StepPart part;
    int64_t begin_ns;
    int64_t inner_ns;  // the part that belongs to inner sections
  };

  int64_t now_ns() const;
  void begin_section(StepPart part);
  void end_section();
  // Counts what communication_ns has grown by, inside the innermost open section.
  void count_communication();

  StepTimerOptions options_;
  int64_t communication_ns_ = 0;  // value of the counter up to which time was counted
  int64_t step_begin_ns_ = 0;
  std::array<int64_t, kStepParts> parts_ns_{};
  std::vector<Open> open_;
  std::vector<StepTimes> ring_;
  int64_t steps_ = 0;
};

}  // namespace muster
