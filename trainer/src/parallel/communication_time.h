// How long communication held up a thread; the step timer reports it. Each thread has its own, so a
// background checkpoint does not count. Without LibTorch.
//
// Time counts when the thread did nothing but wait: inside a collective that runs on the calling
// thread, or in the wait for an asynchronous one. An asynchronous collective that runs while the
// thread computes costs nothing here. Device backends (NCCL) wait on the device's streams, not on the
// host: their time shows up where the host next waits for the device.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace muster {

class CommunicationTime {
 public:
  static CommunicationTime& of_thread() {
    thread_local CommunicationTime own;
    return own;
  }

  // Nanoseconds of waiting so far. Never goes down.
  int64_t waited_ns() const { return waited_ns_; }

  // Counts the time while it exists as waiting. Must not be nested.
  class Wait {
   public:
    Wait() : begin_ns_(now_ns()) {}
    ~Wait() { of_thread().add_wait(begin_ns_, now_ns()); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    const int64_t begin_ns_;
  };

  // The asynchronous collectives that this thread started.
  struct Running {
    std::atomic<int> count = 0;
    std::atomic<int64_t> last_end_ns = 0;

    void end() {  // any thread
      last_end_ns = now_ns();
      --count;
    }
  };
  // The thread has started a collective: call end() on the result when it has completed.
  std::shared_ptr<Running> start() {
    last_event_ns_ = now_ns();
    ++running_->count;
    return running_;
  }

  // For code whose waits cannot be observed, such as torch's Reducer at the end of backward: counts
  // the time from the last collective that the thread started or waited for, if that was after
  // `since_ns`, until all running collectives had ended.
  void add_hidden_wait(int64_t since_ns) {
    const int64_t now = now_ns();
    const int64_t end = running_->count > 0 ? now : std::min<int64_t>(now, running_->last_end_ns);
    if (last_event_ns_ >= since_ns && end > last_event_ns_) add_wait(last_event_ns_, end);
  }

  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  void add_wait(int64_t begin_ns, int64_t end_ns) {
    waited_ns_ += end_ns - begin_ns;
    last_event_ns_ = end_ns;
  }

  int64_t waited_ns_ = 0;
  int64_t last_event_ns_ = 0;  // when the thread last started a collective or ended a wait
  const std::shared_ptr<Running> running_ = std::make_shared<Running>();
};

}  // namespace muster
