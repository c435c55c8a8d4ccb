// Finds the segments of metrics below a data directory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/store_parts/segment_metrics.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class LocalMetricReader final : public SegmentMetricReader {
 public:
  LocalMetricReader(const Paths& paths, uint64_t job) : paths_(paths), job_(job) {}

 private:
  absl::StatusOr<std::vector<uint32_t>> FindAttempts() const override {
    return MetricAttemptsBelow(paths_, job_);
  }
  std::shared_ptr<const StreamSegments> SegmentsOf(uint32_t attempt) const override;

  const Paths paths_;
  const uint64_t job_;
};

}  // namespace muster::coordinator
