// A descriptor that becomes readable at a point in time, also one that passes while the machine is
// suspended: the timeout of poll counts CLOCK_MONOTONIC, which stands still meanwhile, and would
// expire late by as long as the machine slept. One thread; errors leave a timer without a
// descriptor, so the caller keeps poll's timeout too.
#pragma once

#include <cstdint>

namespace muster::common {

class WakeTimer {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  WakeTimer();
  ~WakeTimer();
  WakeTimer(const WakeTimer&) = delete;
  WakeTimer& operator=(const WakeTimer&) = delete;

  int fd() const { return fd_; }  // for POLLIN; never read. -1: none
  // Readable from `at_us` on (CLOCK_BOOTTIME), until set to another time.
  void Set(int64_t at_us);

 private:
  int fd_;
  int64_t at_us_ = kNever;
};

}  // namespace muster::common
