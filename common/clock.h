// The door to time. Monotonic time decides (leases, timers, grace), lived time decides what is old;
// wall time is shown to people.
#pragma once

#include <cstdint>

namespace muster::common {

// One reading of the clocks. Pure code takes it as an argument and never asks a clock itself.
struct Now {
  int64_t mono_ms =
      0;  // CLOCK_BOOTTIME: goes on while the machine sleeps, comparable within one boot
  int64_t wall_ms = 0;  // Unix milliseconds
  // How long the coordinator has been up in all its lives together (coordinator/lived_clock.h);
  // 0 where nobody counts it. Comparable across restarts, and no clock that is set can move it.
  int64_t lived_ms = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Now Read() const = 0;
};

// The machine's clocks. Any thread.
class SystemClock final : public Clock {
 public:
  Now Read() const override;
};

}  // namespace muster::common
