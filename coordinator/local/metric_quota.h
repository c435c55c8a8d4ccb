// Limits how much of the disk the metrics of one job take. A job that has reached its quota keeps
// its stored points, and its curves end there. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class MetricQuota {
 public:
  // `of_any`: bytes that every job may have; 0: no limit.
  MetricQuota(const Paths& paths, uint64_t of_any) : paths_(paths), of_any_(of_any) {}

  bool IsFull(uint64_t job);
  void Wrote(uint64_t job, uint64_t bytes);
  void Forget(uint64_t job);

 private:
  const Paths paths_;
  const uint64_t of_any_;
  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, uint64_t> bytes_;
};

}  // namespace muster::coordinator
