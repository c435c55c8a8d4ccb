// Threads for work on files that a job can reach: its paths may lie on a network file system that
// hangs, its files may be huge. Work of one lane (an attempt and a kind of work) runs in order, one
// task at a time, so that what hangs holds up its own lane alone; lanes run beside each other. The
// threads come when they are needed and leave when they are not.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "worker/core/state.h"

namespace muster::worker {

enum class Work { kLaunch, kReport, kScan, kCopy, kUpload, kFetch, kDelete };

class JobThreads {
 public:
  explicit JobThreads(size_t threads_max = 128);
  ~JobThreads();

  // Any thread. The caller bounds what it posts to one lane.
  void Post(const AttemptKey& key, Work work, std::function<void()> task);
  // Forgets what has not begun, and waits at most so long for what runs. False: something hangs and
  // will still touch what it was given, so nothing of that may be freed.
  bool Shutdown(std::chrono::milliseconds wait);

 private:
  struct Shared;  // outlives this object for as long as a thread hangs
  static void Run(const std::shared_ptr<Shared>& shared);
  const std::shared_ptr<Shared> shared_;
};

}  // namespace muster::worker
