// Runs the commands of jobs' `notify` on this node like their ranks: same account, sandbox (except for /tmp,
// because the ranks' may be gone), environment and working directory. A few at once, each for at most a minute,
// on their own threads. Remembers how the newest ended, so that a repeated order is answered instead of run
// again. Control loop's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/lru_map.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/job_threads.h"
#include "worker/confinement/isolation.h"
#include "worker/launch/launch_environment.h"

namespace muster::worker {

class NotifyCommands {
 public:
  // limit: notify: commands at once on a node
  static constexpr size_t kAtOnce = 4;
  // limit: notify: commands on a node, with those that run; the coordinator asks again
  static constexpr size_t kWaitingMax = 32;  // including running ones; the coordinator asks again
  static constexpr size_t kRememberedMax = 1'024;
  // limit: notify: output kept of one command
  static constexpr size_t kOutputBytesMax = 2'048;
  // limit: notify: one command; it is killed
  static constexpr int kTimeoutMs = 60'000;

  struct Setup {
    std::string node;
    std::set<std::string> device_kinds;
    RunAs run_as;
    Isolation isolation;
    Paths paths;
    std::string shim_binary;
  };
  // `ended`: on a thread of this object's; passes it to Ended on the control loop's.
  NotifyCommands(Setup setup, std::function<void(v1::NotifyEnded)> ended);
  ~NotifyCommands() { Shutdown(std::chrono::milliseconds(0)); }

  // Starts the command, or returns its earlier result.
  std::optional<v1::NotifyEnded> Run(v1::RunNotify order);
  void Ended(const v1::NotifyEnded& ended);
  // Kills what is running, without an answer. False: a thread still hangs on some file system.
  bool Shutdown(std::chrono::milliseconds wait);

 private:
  const std::shared_ptr<const Setup> setup_;
  const std::function<void(v1::NotifyEnded)> ended_;
  // By delivery.
  std::set<std::string> running_;  // or waiting
  common::LruMap<std::string, v1::NotifyEnded> ended_before_{kRememberedMax};
  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  JobThreads threads_{kAtOnce};
};

}  // namespace muster::worker
