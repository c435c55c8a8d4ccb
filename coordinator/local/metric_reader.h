// Reads a job's metric segments, with a piece of one file in memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/statusor.h"
#include "coordinator/local/metric_segment.h"
#include "coordinator/paths.h"
#include "coordinator/stores/metric_store.h"

namespace muster::coordinator {

class LocalMetricReader final : public MetricReader {
 public:
  LocalMetricReader(const Paths& paths, uint64_t job) : paths_(paths), job_(job) {}

  absl::StatusOr<bool> Next(v1::MetricBatch& batch) override;
  size_t Attempts() const override { return segments_.size(); }

 private:
  absl::Status FindSegments();

  Paths paths_;
  uint64_t job_;
  std::map<uint32_t, MetricSegmentReader> segments_;  // by attempt
  std::optional<uint32_t> at_;  // the attempt being read; none: a round begins
};

}  // namespace muster::coordinator
