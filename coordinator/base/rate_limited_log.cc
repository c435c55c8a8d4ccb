#include "coordinator/base/rate_limited_log.h"

#include <utility>

#include "common/log.h"
#include "common/text/strings.h"

namespace muster::coordinator {

void RateLimitedLog::Warn(const std::string& text) {
  uint64_t left_out = 0;
  {
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) {
      ++left_out_;
      return;
    }
    next_ = now + kEvery;
    left_out = std::exchange(left_out_, 0);
  }
  common::LogWarning(
      left_out == 0 ? text : common::StrCat(text, " (and ", left_out, " similar ones suppressed)"));
}

}  // namespace muster::coordinator
