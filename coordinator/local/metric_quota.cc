#include "coordinator/local/metric_quota.h"

#include "coordinator/base/file_tree.h"

namespace muster::coordinator {

bool MetricQuota::IsFull(uint64_t job) {
  if (of_any_ == 0) return false;
  {
    std::lock_guard lock(mutex_);
    const auto known = bytes_.find(job);
    if (known != bytes_.end()) return known->second >= of_any_;
  }
  const uint64_t bytes = BytesBelow(paths_.Root(), paths_.BelowRoot(paths_.MetricDirectory(job)));
  std::lock_guard lock(mutex_);
  return bytes_.emplace(job, bytes).first->second >= of_any_;
}

void MetricQuota::Wrote(uint64_t job, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (const auto known = bytes_.find(job); known != bytes_.end()) known->second += bytes;
}

void MetricQuota::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  bytes_.erase(job);
}

}  // namespace muster::coordinator
