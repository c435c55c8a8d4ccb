// The preparations that run on this node: one thread each, stopped when its attempt ends. Control
// loop's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "worker/base/job_threads.h"
#include "worker/preparation/preparation_steps.h"

namespace muster::worker {

class Preparations {
 public:
  using Done = std::function<void(PreparedNode)>;
  struct Callbacks {
    std::function<void(std::function<void()>)> in_loop;  // posts to the control loop
    // Its newest state, at most once a second per attempt.
    std::function<void(const AttemptKey&, const std::string&)> preparing;
  };
  Preparations(PreparationSetup setup, FetchObject fetch, JobThreads* threads, Callbacks callbacks)
      : context_(std::move(setup), std::move(fetch)),
        threads_(threads),
        callbacks_(std::move(callbacks)) {}

  // `done` is called unless it is cancelled.
  void Start(const AttemptKey& key, const v1::PrepareAttempt& order, Done done);
  void Cancel(const AttemptKey& key);
  // True while its thread may still write to the attempt's directory, even if it was cancelled.
  bool IsBusy(const AttemptKey& key) const { return running_.contains(key); }
  // Makes all end soon; JobThreads waits for them. Any thread.
  void Stop() { *stopping_ = true; }

  std::optional<int64_t> NextDeadlineMs() const;
  void OnTime(int64_t now_ms);

 private:
  struct Running {
    std::shared_ptr<std::atomic<bool>> cancelled;
    Done done;
    std::string unsaid;   // the newest state, if it is not reported yet
    int64_t next_ms = 0;  // when the next state may be reported
  };
  Progress ProgressOf(const AttemptKey& key, std::shared_ptr<std::atomic<bool>> cancelled);
  void Hear(const AttemptKey& key, const std::string& doing);

  PreparationContext context_;
  JobThreads* const threads_;
  const Callbacks callbacks_;
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  std::map<AttemptKey, Running> running_;
};

}  // namespace muster::worker
