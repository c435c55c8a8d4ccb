#include "common/base/clock.h"

#include <ctime>

namespace muster::common {
namespace {

int64_t ReadMilliseconds(clockid_t clock) {
  timespec value{};
  clock_gettime(clock, &value);
  return int64_t{value.tv_sec} * 1000 + value.tv_nsec / 1'000'000;
}

}  // namespace

int64_t MonotonicMs() { return ReadMilliseconds(CLOCK_BOOTTIME); }

Now SystemClock::Read() const {
  return {.mono_ms = MonotonicMs(), .wall_ms = ReadMilliseconds(CLOCK_REALTIME)};
}

}  // namespace muster::common
