#include "common/kernel/wake_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace muster::common {

WakeTimer::WakeTimer() : fd_(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)) {}

WakeTimer::~WakeTimer() {
  if (fd_ >= 0) close(fd_);
}

void WakeTimer::Set(int64_t at_us) {
  if (fd_ < 0 || at_us == at_us_) return;
  at_us_ = at_us;
  itimerspec when{};  // all zero: disarmed
  if (at_us != kNever) {
    const int64_t past_zero_us = std::max<int64_t>(at_us, 1);
    when.it_value = {past_zero_us / 1'000'000, past_zero_us % 1'000'000 * 1000};
  }
  timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace muster::common
