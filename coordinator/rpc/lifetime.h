// When a private coordinator leaves: no client attends, no attached run is open, no job is live and
// nobody said `up`. A coordinator of a cluster only counts. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>

#include "coordinator/work_pool.h"

namespace muster::coordinator {

class Lifetime {
 public:
  // A private coordinator that nobody ever attended leaves after this.
  static constexpr std::chrono::seconds kFirstClientWithin{10};
  // How long the last output of finished jobs is waited for.
  static constexpr std::chrono::milliseconds kDrainWithin{2'000};

  // `leave` is called once; `undrained` says how many log streams are still coming in.
  Lifetime(bool is_private, WorkPool& pool, std::function<void()> leave,
           std::function<size_t()> undrained);

  // Counts from now on; called when the coordinator serves.
  void Begin();
  void ClientCame();
  void ClientLeft();
  void SetLiveJobs(size_t live_jobs);
  void SetStay(bool stay);
  // Leave as soon as no job is live, whoever attends.
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
  bool attended_ = false;  // a client came, or the time for the first one is over
  bool stay_ = false;
  bool stop_when_idle_ = false;
  bool draining_ = false;
  bool left_ = false;
};

}  // namespace muster::coordinator
