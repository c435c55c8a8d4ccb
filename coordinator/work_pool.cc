#include "coordinator/work_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace muster::coordinator {

void YieldBy(int niceness) {
  const auto self = static_cast<id_t>(gettid());  // Linux keeps it by thread
  if (niceness > getpriority(PRIO_PROCESS, self)) setpriority(PRIO_PROCESS, self, niceness);
}

WorkPool::WorkPool(int threads, int niceness) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, niceness] { Run(niceness); });
}

void WorkPool::Post(std::function<void()> work) {
  PostAfter(std::chrono::milliseconds(0), std::move(work));
}

void WorkPool::PostAfter(std::chrono::milliseconds delay, std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    items_.push({std::chrono::steady_clock::now() + delay, next_number_++, std::move(work)});
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
  // What delayed work holds may need what is destroyed before this.
  decltype(items_) dropped;
  std::lock_guard lock(mutex_);
  dropped.swap(items_);
}

void WorkPool::Run(int niceness) {
  YieldBy(niceness);
  std::unique_lock lock(mutex_);
  while (true) {
    if (items_.empty()) {
      if (stopping_) return;
      wake_.wait(lock);
      continue;
    }
    const Time due = items_.top().due;
    if (due > std::chrono::steady_clock::now()) {
      if (stopping_) return;
      wake_.wait_until(lock, due);
      continue;
    }
    std::function<void()> work = items_.top().work;
    items_.pop();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace muster::coordinator
