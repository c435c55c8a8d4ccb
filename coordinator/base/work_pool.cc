#include "coordinator/base/work_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace muster::coordinator {

void YieldBy(int niceness) {
  const auto self = static_cast<id_t>(gettid());  // Linux keeps it by thread
  if (niceness > getpriority(PRIO_PROCESS, self)) setpriority(PRIO_PROCESS, self, niceness);
}

WorkPool::WorkPool(int threads, int niceness) : of_one_(std::max(1, threads - 1)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, niceness] { Run(niceness); });
}

void WorkPool::Post(std::function<void()> work, const std::string& owner) {
  PostAfter(std::chrono::milliseconds(0), std::move(work), owner);
}

void WorkPool::PostAfter(std::chrono::milliseconds delay, std::function<void()> work,
                         const std::string& owner) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    delayed_.push(
        {std::chrono::steady_clock::now() + delay, next_number_++, std::move(work), owner});
  }
  wake_.notify_one();
}

void WorkPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  // Delayed work may hold references to objects that are destroyed before the pool.
  decltype(delayed_) dropped;
  std::lock_guard lock(mutex_);
  dropped.swap(delayed_);
}

void WorkPool::TakeDue() {
  if (delayed_.empty()) return;
  const Time now = std::chrono::steady_clock::now();
  while (!delayed_.empty() && delayed_.top().due <= now) {
    Item item = delayed_.top();
    delayed_.pop();
    due_.Push(item.owner, std::move(item.work));
  }
}

void WorkPool::Run(int niceness) {
  YieldBy(niceness);
  std::unique_lock lock(mutex_);
  while (true) {
    TakeDue();
    auto next = due_.Take([this](const std::string& owner) {
      const auto running = running_.find(owner);
      return running == running_.end() || running->second < of_one_;
    });
    if (!next.has_value()) {
      // Delayed work is dropped; work that waits for another thread to finish is started by that
      // thread.
      if (stopping_) return;
      if (delayed_.empty()) {
        wake_.wait(lock);
      } else {
        const Time due = delayed_.top().due;  // a copy: others post while this waits
        wake_.wait_until(lock, due);
      }
      continue;
    }
    ++running_[next->owner];
    lock.unlock();
    next->item();
    next->item = nullptr;
    lock.lock();
    if (--running_.at(next->owner) == 0) running_.erase(next->owner);
    // This owner may have a turn again, but this thread may take another owner's work first.
    if (!due_.empty()) wake_.notify_one();
  }
}

}  // namespace muster::coordinator
