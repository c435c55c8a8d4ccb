// What senders of a store's tests share: their lock, and being asked to send again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace muster::coordinator {

// `Uploader`: the store's.
template <typename Uploader>
class ResendingSender : public Uploader {
 public:
  void Consumed(size_t bytes) override {}
  void SendAgain() override {
    std::lock_guard lock(mutex_);
    sends_again_ = true;
    changed_.notify_all();
  }
  bool WaitToSendAgain() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return sends_again_; });
  }

 protected:
  std::mutex mutex_;  // also guards the members of derived senders
  std::condition_variable changed_;

 private:
  bool sends_again_ = false;
};

}  // namespace muster::coordinator
