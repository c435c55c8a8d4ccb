// Threads for work on files that a job can reach: its paths may be on a network file system that
// hangs, its files may be huge. Work in one lane (an attempt and a kind of work) runs in order, one
// task at a time, so that a hang blocks only its own lane; lanes run in parallel. Threads are
// started on demand and exit when idle.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "worker/core/state.h"

namespace muster::worker {

enum class Work {
  kLaunch,
  kReport,
  kScan,
  kCopy,
  kUpload,
  kFetch,
  kDelete,
  kSample,
  kLook,
  kNotify,
  kExec,
  kPrepare
};

class JobThreads {
 public:
  explicit JobThreads(size_t threads_max = 128);
  ~JobThreads();

  // Any thread. The caller limits what it posts to one lane.
  void Post(const AttemptKey& key, Work work, std::function<void()> task);
  // Drops what has not started, and waits at most this long for what is running. False: a task
  // hangs and will still access its arguments, so none of these may be freed.
  bool Shutdown(std::chrono::milliseconds wait);

 private:
  struct Shared;  // outlives this object as long as a thread hangs
  static void Run(const std::shared_ptr<Shared>& shared);
  const std::shared_ptr<Shared> shared_;
};

}  // namespace muster::worker
