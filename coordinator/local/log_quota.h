// Limits how much of the disk the output of one job takes. If a job has more than its quota, the
// oldest whole segments of its streams are removed (segments/trim.h) until it has a little less
// than the quota, so that the directory need not be read again soon. The log store's thread, unless
// noted otherwise.
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

  // Call it when the job writes one more stream, so that the last segments of all its streams
  // together stay a small share of its quota, however many ranks it has.
  void Opened(uint64_t job);
  uint64_t SegmentBytes(uint64_t job) const;
  // Call it when `bytes` were appended. Returns how many bytes of segments were removed to make
  // room.
  absl::StatusOr<uint64_t> Wrote(uint64_t job, uint64_t bytes);

 private:
  struct OfJob {
    uint64_t keep = 0;  // 0: the limit of every job
    uint64_t streams = 0;
    bool counted = false;
    uint64_t total = 0;  // approximate, until the directory is read again
    uint64_t due = 0;    // read the directory when `total` exceeds it
  };

  uint64_t Of(const OfJob& job) const;
  // Removes the oldest segments until at most `most` of `bytes` are left; returns how many are
  // left.
  absl::StatusOr<uint64_t> Trim(uint64_t job, uint64_t bytes, uint64_t most) const;

  const Paths paths_;
  const uint64_t of_any_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<uint64_t, OfJob> jobs_;
};

}  // namespace muster::coordinator
