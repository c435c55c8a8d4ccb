// The jobs whose streams the disk refuses now: stores report them, events and calls show them. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "common/problem.h"

namespace muster::coordinator {

class StreamFailures {
 public:
  static constexpr size_t kJobsMax =
      1'000;  // remembered; beyond this, a job is not worth another line

  struct Failure {
    uint64_t job = 0;
    uint32_t attempt = 0;
    common::Problem problem;  // of its stream that failed last
  };

  // Calls `told` once for each job, until its failure is over. Set it before any thread of a store runs.
  void OnFirst(std::function<void(const Failure&)> told) { told_ = std::move(told); }
  // The failure is over if nothing fails again within `for_ms`.
  void Failed(Failure failure, int64_t for_ms);
  // By job.
  std::vector<Failure> Now();

 private:
  struct Entry {
    Failure failure;
    int64_t until_ms = 0;  // of the steady clock
  };

  std::function<void(const Failure&)> told_;
  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Entry> jobs_;
};

}  // namespace muster::coordinator
