// Reports of ranks that ended: the error file and the end of stderr are read outside the control
// loop, because they belong to the rank (one may be a FIFO, or on a network file system that
// hangs), and for a bounded time. Order is kept: the report of an attempt's end follows all reports
// of its ranks. Control loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "worker/attempts/rank_report.h"
#include "worker/base/job_threads.h"
#include "worker/base/paths.h"
#include "worker/core/decide.h"

namespace muster::worker {

class RankReportQueue {
 public:
  struct Callbacks {
    std::function<void(Input)> input;                    // on the control loop's thread
    std::function<void(std::function<void()>)> in_loop;  // posts from a job's thread to it
  };
  RankReportQueue(Paths paths, JobThreads* threads, Callbacks callbacks);

  // For a rank that `launch` runs on this node; ignored for any other.
  void Add(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
           const RankExited& exit);
  // Passes on an input about an attempt, immediately or after its reports.
  void Pass(Input input);

  std::optional<int64_t> NextDeadlineMs() const;
  void OnTime(int64_t now_ms);

 private:
  struct Waiting {
    Input input;
    uint64_t number = 0;
    bool ready = false;
    int64_t deadline_ms = 0;
  };
  void OnRead(const AttemptKey& key, uint64_t number, const v1::RankExit& report);
  void Flush(const AttemptKey& key);

  const Paths paths_;
  JobThreads* const threads_;
  const Callbacks callbacks_;
  uint64_t last_number_ = 0;
  std::map<AttemptKey, std::deque<Waiting>> waiting_;
};

}  // namespace muster::worker
