// A job's stored metrics as they count. Of a job that restarted they are read twice: first which steps
// a later attempt did again, then the points. One thread at a time; the store outlives it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/curves/followed_line.h"
#include "coordinator/stores/metric_store.h"

namespace muster::coordinator {

class FollowedReader {
 public:
  // `counts_all`: also what a later attempt did again; then once is enough.
  FollowedReader(const MetricStore& metrics, uint64_t job, bool counts_all = false)
      : metrics_(metrics), job_(job), reader_(metrics.Read(job)), line_known_(counts_all) {}

  enum class Read { kPoints, kLine, kEnd };
  // Reads one batch. kPoints: those of its points count that are not replaced; kLine: none yet;
  // kEnd: there are no more now, and `batch` is none. UNAVAILABLE: ask again later.
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
