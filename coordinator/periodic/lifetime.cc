#include "coordinator/periodic/lifetime.h"

#include <utility>

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kDrainPoll{10};

}  // namespace

Lifetime::Lifetime(bool is_private, WorkPool& pool, std::function<void()> leave,
                   std::function<size_t()> undrained)
    : is_private_(is_private),
      pool_(pool),
      leave_(std::move(leave)),
      undrained_(std::move(undrained)) {}

void Lifetime::Begin() {
  {
    std::lock_guard lock(mutex_);
    began_ = true;
  }
  if (!is_private_) return;
  pool_.PostAfter(kFirstClientWithin, [this] {
    std::unique_lock lock(mutex_);
    attended_ = true;
    MaybeLeave(lock);
  });
}

void Lifetime::ClientCame() {
  std::lock_guard lock(mutex_);
  ++clients_;
  attended_ = true;
}

void Lifetime::ClientLeft() {
  std::unique_lock lock(mutex_);
  --clients_;
  MaybeLeave(lock);
}

void Lifetime::SetLiveJobs(size_t live_jobs) {
  std::unique_lock lock(mutex_);
  live_jobs_ = live_jobs;
  MaybeLeave(lock);
}

void Lifetime::SetStay(bool stay) {
  std::unique_lock lock(mutex_);
  stay_ = stay;
  if (stay) stop_when_idle_ = false;
  MaybeLeave(lock);
}

void Lifetime::StopWhenIdle() {
  std::unique_lock lock(mutex_);
  stay_ = false;
  stop_when_idle_ = true;
  MaybeLeave(lock);
}

bool Lifetime::Stays() {
  std::lock_guard lock(mutex_);
  return stay_;
}

bool Lifetime::MayLeave() const {
  if (!began_ || left_ || live_jobs_ > 0) return false;
  if (stop_when_idle_) return true;
  return is_private_ && attended_ && clients_ == 0 && !stay_;
}

void Lifetime::MaybeLeave(std::unique_lock<std::mutex>& lock) {
  if (!MayLeave() || draining_) return;
  draining_ = true;
  lock.unlock();
  const auto until = std::chrono::steady_clock::now() + kDrainWithin;
  pool_.Post([this, until] { Drain(until); });
}

// A job's last output may arrive after its end. A client that connects meanwhile is still served.
void Lifetime::Drain(std::chrono::steady_clock::time_point until) {
  {
    std::lock_guard lock(mutex_);
    if (!MayLeave()) {
      draining_ = false;
      return;
    }
  }
  if (undrained_() > 0 && std::chrono::steady_clock::now() < until) {
    pool_.PostAfter(kDrainPoll, [this, until] { Drain(until); });
    return;
  }
  {
    std::lock_guard lock(mutex_);
    draining_ = false;
    if (!MayLeave()) return;
    left_ = true;
  }
  leave_();
}

}  // namespace muster::coordinator
