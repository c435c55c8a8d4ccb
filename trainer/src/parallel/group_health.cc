// See group_health.h.
#include "parallel/group_health.h"

namespace muster {

std::string GroupHealth::fail(const std::string& reason) noexcept {
  if (calls_) calls_->fail(reason);
  const std::string first = calls_ ? calls_->failure() : "";
  std::string own;
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = first.empty() ? reason : first;
    own = failure_;
  }
  break_connections(connections_);
  return own;
}

std::string GroupHealth::failure() const {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return failure_;
  }
  return calls_ ? calls_->failure() : "";
}

std::string GroupHealth::trouble() const {
  const std::string reason = failure();
  if (!reason.empty()) return reason;
  return any_is_broken(connections_) ? "Connection closed by peer" : "";
}

}  // namespace muster
