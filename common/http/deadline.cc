#include "common/http/deadline.h"

#include <poll.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::common {

absl::Status Deadline::Check() const {
  if (stop_ != nullptr && *stop_) return absl::CancelledError("stopped");
  if (MonotonicMs() < deadline_ms_) return absl::OkStatus();
  const auto within_ms = static_cast<double>(within_.count());
  return absl::DeadlineExceededError(StrCat("no answer within ", within_ms / 1000.0, " s"));
}

absl::Status Deadline::AwaitSocket(int fd, short events) const {
  while (true) {
    RETURN_IF_ERROR(Check());
    const int64_t left_ms = deadline_ms_ - MonotonicMs();
    pollfd waited{fd, events, 0};
    const auto slice_ms = static_cast<int>(std::clamp<int64_t>(left_ms, 0, kSlice.count()));
    if (poll(&waited, 1, slice_ms) > 0) return absl::OkStatus();
  }
}

}  // namespace muster::common
