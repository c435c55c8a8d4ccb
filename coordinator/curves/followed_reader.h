// Reads the effective metrics of a job from the store. If the job restarted, they are read twice: first to
// learn which steps a later attempt repeated, then for the points. One thread at a time; the store outlives it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/curves/followed_line.h"
#include "coordinator/stores/metric_store.h"

namespace muster::coordinator {

class FollowedReader {
 public:
  // `counts_all`: include repeated steps; then one pass is enough.
  FollowedReader(const MetricStore& metrics, uint64_t job, bool counts_all = false)
      : metrics_(metrics), job_(job), reader_(metrics.Read(job)), line_known_(counts_all) {}

  enum class Read { kPoints, kLine, kEnd };
  // Reads one batch. kPoints: the points in it that are not replaced count; kLine: no points count
  // yet; kEnd: there are no more batches now, and `batch` has no value. UNAVAILABLE: call again
  // later.
  absl::StatusOr<Read> Next(v1::MetricBatch& batch);
  bool IsReplaced(const v1::MetricBatch& batch, const v1::MetricPoint& point) const {
    return line_.IsReplaced(batch.attempt(), point.step());
  }
  uint64_t DamagedBytes() const { return reader_->DamagedBytes(); }

 private:
  const MetricStore& metrics_;
  const uint64_t job_;
  std::unique_ptr<MetricReader> reader_;
  FollowedLine line_;
  bool line_known_;
};

}  // namespace muster::coordinator
