// Reads a job's metric segments. Keeps a piece of one file in memory per attempt.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/segments/cursor.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Reads the metrics of one attempt.
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

class LocalMetricReader final : public MetricReader {
 public:
  LocalMetricReader(const Paths& paths, uint64_t job) : paths_(paths), job_(job) {}

  absl::StatusOr<bool> Next(v1::MetricBatch& batch) override;
  size_t Attempts() const override { return streams_.size(); }
  uint64_t DamagedBytes() const override;
  void Forget() override;

 private:
  absl::Status FindStreams();

  Paths paths_;
  uint64_t job_;
  std::map<uint32_t, MetricStreamReader> streams_;  // by attempt
  std::optional<uint32_t> at_;                      // the attempt being read; none: starts over
};

}  // namespace muster::coordinator
