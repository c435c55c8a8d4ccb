// Reads metrics that are kept as segments (segments/window.h), wherever those lie.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/segments/cursor.h"
#include "coordinator/store_parts/metric_sources.h"
#include "coordinator/store_parts/newest_metrics.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Reads the metrics of one attempt. Keeps a piece of a segment in memory.
class MetricStreamReader {
 public:
  explicit MetricStreamReader(std::shared_ptr<const StreamSegments> segments)
      : records_(std::move(segments), 0, SegmentCursor::Appetite::kAll) {}

  // As in MetricReader.
  absl::StatusOr<bool> Next(v1::MetricBatch& batch);
  uint64_t DamagedBytes() const { return damaged_; }
  void Forget() { records_.Forget(); }

 private:
  SegmentCursor records_;
  uint64_t damaged_ = 0;
};

// Which batches these are. False: there are none.
absl::StatusOr<bool> ReadSources(MetricStreamReader& reader, MetricSources& sources);
// `newest`, and what all batches add to it.
absl::StatusOr<NewestMetrics> ReadNewest(MetricReader& reader, NewestMetrics newest);

class SegmentMetricReader : public MetricReader {
 public:
  absl::StatusOr<bool> Next(v1::MetricBatch& batch) override;
  size_t Attempts() const override { return streams_.size(); }
  uint64_t DamagedBytes() const override;
  void Forget() override;

 private:
  // Those that have metrics.
  virtual absl::StatusOr<std::vector<uint32_t>> FindAttempts() const = 0;
  virtual std::shared_ptr<const StreamSegments> SegmentsOf(uint32_t attempt) const = 0;

  std::map<uint32_t, MetricStreamReader> streams_;  // by attempt
  std::optional<uint32_t> at_;                      // the attempt being read; none: starts over
};

// Those that have metrics below a data directory.
absl::StatusOr<std::vector<uint32_t>> MetricAttemptsBelow(const Paths& paths, uint64_t job);

// As a record of their stream has it: when the first of its points was reported.
int64_t TimeUsOf(const v1::MetricBatch& batch);

}  // namespace muster::coordinator
