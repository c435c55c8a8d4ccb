#include "coordinator/services/waiting_launches.h"

#include <utility>

namespace muster::coordinator {
namespace {

bool HasSecrets(const v1::CoordinatorMessage& message) {
  return message.has_launch() && !message.launch().spec().secrets().empty();
}

}  // namespace

WaitingLaunches::Took WaitingLaunches::Take(v1::CoordinatorMessage& message) {
  std::lock_guard lock(mutex_);
  if (!is_sending_ && !HasSecrets(message)) return Took::kNo;
  bytes_ += message.ByteSizeLong();
  waiting_.push_back(std::move(message));
  return std::exchange(is_sending_, true) ? Took::kYes : Took::kFirst;
}

void WaitingLaunches::SendAll(const std::function<void(v1::LaunchAttempt*)>& fill,
                              const std::function<void(v1::CoordinatorMessage)>& send) {
  while (true) {
    v1::CoordinatorMessage message;
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        is_sending_ = false;
        return;
      }
      message = std::move(waiting_.front());
      waiting_.pop_front();
      bytes_ -= message.ByteSizeLong();
    }
    if (HasSecrets(message)) fill(message.mutable_launch());
    send(std::move(message));
  }
}

size_t WaitingLaunches::Bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void WaitingLaunches::Drop() {
  std::lock_guard lock(mutex_);
  waiting_.clear();
  bytes_ = 0;
}

}  // namespace muster::coordinator
