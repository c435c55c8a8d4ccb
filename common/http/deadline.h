// How long one request may still take: until its deadline, or until its caller stops. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace muster::common {

class Deadline {
 public:
  // How often it checks for a stop.
  static constexpr std::chrono::milliseconds kSlice{100};

  Deadline(std::chrono::milliseconds within, const std::atomic<bool>* stop)
      : within_(within), deadline_ms_(MonotonicMs() + within.count()), stop_(stop) {}

  // DEADLINE_EXCEEDED or CANCELLED once it is over.
  absl::Status Check() const;
  // Waits until the socket is ready for `events` of poll; errors as above.
  absl::Status AwaitSocket(int fd, short events) const;

 private:
  const std::chrono::milliseconds within_;
  const int64_t deadline_ms_;
  const std::atomic<bool>* const stop_;
};

}  // namespace muster::common
