// How much of the disk the output of one job takes. Where a job has more than its quota, the oldest
// whole segments of its streams go (segments/trim.h), down to a little less than the quota, so that
// the next look at the directory is far away. The log store's thread, unless said otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "absl/status/statusor.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class LogQuota {
 public:
  // `of_any`: bytes that every job may have; 0: no limit.
  LogQuota(const Paths& paths, uint64_t of_any) : paths_(paths), of_any_(of_any) {}

  // This job may have less. Any thread.
  void KeepAtMost(uint64_t job, uint64_t bytes);
  // Any thread.
  void Forget(uint64_t job);

  // The job writes one more stream. All streams' last segments together are a small share of its
  // quota, however many ranks it has.
  void Opened(uint64_t job);
  uint64_t SegmentBytes(uint64_t job) const;
  // So many bytes were appended. How many bytes of segments were removed for it.
  absl::StatusOr<uint64_t> Wrote(uint64_t job, uint64_t bytes);

 private:
  struct OfJob {
    uint64_t keep = 0;  // 0: as any
    uint64_t streams = 0;
    bool counted = false;
    uint64_t total = 0;  // about, until the next look
    uint64_t due = 0;    // look when `total` is more
  };

  uint64_t Of(const OfJob& job) const;
  // Removes the oldest segments of `bytes` until at most `most` are left; how many are.
  absl::StatusOr<uint64_t> Trim(uint64_t job, uint64_t bytes, uint64_t most) const;

  const Paths paths_;
  const uint64_t of_any_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<uint64_t, OfJob> jobs_;
};

}  // namespace muster::coordinator
