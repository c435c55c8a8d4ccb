// The process's only access to time. Monotonic time decides (leases, timers, grace), lived time
// decides what is old; wall time is shown to people.
#pragma once

#include <cstdint>

namespace muster::common {

// One reading of the clocks. Pure code takes it as an argument and never reads a clock.
struct Now {
  int64_t mono_ms =
      0;  // CLOCK_BOOTTIME: includes time the machine sleeps, comparable within one boot
  int64_t wall_ms = 0;  // Unix milliseconds
  // How long the coordinator has been up, summed over all its runs (coordinator/store_parts/lived_clock.h); 0
  // where it is not tracked. Comparable across restarts and unaffected by changes to the system
  // clock.
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

// SystemClock().Read().mono_ms.
int64_t MonotonicMs();

}  // namespace muster::common
