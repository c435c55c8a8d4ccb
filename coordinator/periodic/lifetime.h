// When a private coordinator exits: no client attends, no attached run is open, no job is live and
// `up` is not in effect. A cluster's coordinator only counts. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>

#include "coordinator/base/work_pool.h"

namespace muster::coordinator {

class Lifetime {
 public:
  // A private coordinator to which no client ever connected exits after this.
  static constexpr std::chrono::seconds kFirstClientWithin{10};
  // How long to wait for the last output of finished jobs.
  static constexpr std::chrono::milliseconds kDrainWithin{2'000};

  // `leave` is called once; `undrained` returns how many log streams are still arriving.
  Lifetime(bool is_private, WorkPool& pool, std::function<void()> leave,
           std::function<size_t()> undrained);

  // Starts the timers; called when the coordinator is serving.
  void Begin();
  void ClientCame();
  void ClientLeft();
  void SetLiveJobs(size_t live_jobs);
  void SetStay(bool stay);
  // Exit as soon as no job is live, no matter which clients attend.
  void StopWhenIdle();
  bool Stays();

 private:
  bool MayLeave() const;
  void MaybeLeave(std::unique_lock<std::mutex>& lock);
  void Drain(std::chrono::steady_clock::time_point until);

  const bool is_private_;
  WorkPool& pool_;
  const std::function<void()> leave_;
  const std::function<size_t()> undrained_;

  std::mutex mutex_;  // guards what follows
  size_t clients_ = 0;
  size_t live_jobs_ = 0;
  bool began_ = false;
  bool attended_ = false;  // a client connected, or the time limit for the first one has passed
  bool stay_ = false;
  bool stop_when_idle_ = false;
  bool draining_ = false;
  bool left_ = false;
};

}  // namespace muster::coordinator
