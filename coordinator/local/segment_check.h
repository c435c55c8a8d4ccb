// The files of logs and metrics in a data directory that no coordinator uses: read whole, record by
// record, and mended where that loses nothing that could still be read. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

// A stretch of one file.
struct SegmentFinding {
  std::string path;  // below the data directory
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string what;  // of a check: what is wrong; of a repair: what was done about it
};

struct SegmentTotals {
  uint64_t log_files = 0;
  uint64_t log_bytes = 0;
  uint64_t metric_files = 0;
  uint64_t metric_bytes = 0;
};

using SegmentFound = std::function<void(const SegmentFinding&)>;

// Changes nothing. An error is one of reading the disk; damage is told to `found`.
absl::Status CheckSegments(const Paths& paths, const SegmentFound& found, SegmentTotals* totals);
// Tells `changed` of each change.
absl::Status RepairSegments(const Paths& paths, const SegmentFound& changed, SegmentTotals* totals);

}  // namespace muster::coordinator
