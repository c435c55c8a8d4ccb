// Work for a thread that polls: any thread posts, the owner runs it. The only way into the control
// loop and the I/O thread. One lock, held for a push or a swap.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "common/files/files.h"

namespace muster::worker {

class Mailbox {
 public:
  using Task = std::function<void()>;

  Mailbox() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  // Any thread. Callers limit what they post: one task per message in flight.
  void Post(Task task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
      if (tasks_.size() > 1) return;  // the owner is awake or about to be
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  }
  // Readable while tasks are waiting.
  int fd() const { return wake_.get(); }
  // The owner: runs everything that was queued at the time of the call. Returns how many.
  size_t RunWaiting() {
    std::vector<Task> taken;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t read_bytes = read(wake_.get(), &count, sizeof count);
      taken.swap(tasks_);
    }
    for (Task& task : taken) task();
    return taken.size();
  }

 private:
  common::UniqueFd wake_;
  std::mutex mutex_;
  std::vector<Task> tasks_;  // guarded by mutex_
};

}  // namespace muster::worker
