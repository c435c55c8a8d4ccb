#include "coordinator/work_pool.h"

#include <utility>

namespace muster::coordinator {

WorkPool::WorkPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
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
}

void WorkPool::Run() {
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
