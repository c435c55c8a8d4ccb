// A job's stored metric batches one by one, attempt by attempt, with a piece of one file in memory.
// The work pool's threads, one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/statusor.h"
#include "coordinator/metric_segment.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

class MetricReader {
 public:
  MetricReader(const Paths& paths, uint64_t job) : paths_(paths), job_(job) {}

  // False: all that was stored has been handed over; asked again, it looks for more, in each
  // attempt from where it stopped. UNAVAILABLE: out of descriptors, ask again later.
  absl::StatusOr<bool> Next(v1::MetricBatch& batch);
  // How many attempts have stored any. Before the first Next: 0.
  size_t Attempts() const { return segments_.size(); }

 private:
  absl::Status FindSegments();

  Paths paths_;
  uint64_t job_;
  std::map<uint32_t, MetricSegmentReader> segments_;  // by attempt
  std::optional<uint32_t> at_;  // the attempt being read; none: a round begins
};

}  // namespace muster::coordinator
