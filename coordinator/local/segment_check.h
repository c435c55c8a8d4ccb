// Checks the logs and metrics of a data directory that no coordinator is using, record by record,
// and repairs them where that loses nothing that could still be read. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// A stretch of one file.
struct SegmentFinding {
  std::string path;  // below the data directory
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string what;            // from a check: what is wrong; from a repair: what was done
  bool is_unreadable = false;  // the system cannot read it, whatever it contains; repair skips it
};

struct SegmentTotals {
  uint64_t log_files = 0;
  uint64_t log_bytes = 0;
  uint64_t metric_files = 0;
  uint64_t metric_bytes = 0;
};

using SegmentFound = std::function<void(const SegmentFinding&)>;

// Changes nothing. Reports damaged and unreadable files to `found`.
absl::Status CheckSegments(const Paths& paths, const SegmentFound& found, SegmentTotals* totals);
// Calls `changed` for each file that it repaired, and for each that it could not.
absl::Status RepairSegments(const Paths& paths, const SegmentFound& changed, SegmentTotals* totals);

}  // namespace muster::coordinator
