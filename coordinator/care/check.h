// `muster-coordinator check` and `repair`: all of a data directory that no coordinator uses. One
// thread; the caller holds LOCK.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/finding.h"
#include "coordinator/local/blob_check.h"
#include "coordinator/local/sample_files.h"
#include "coordinator/local/segment_check.h"
#include "coordinator/paths.h"
#include "coordinator/sqlite/offline.h"

namespace muster::coordinator {

// LOCK, for a look without a coordinator. FAILED_PRECONDITION: one runs there (JC1604), or this is
// not a data directory or another user's (JC1608), in which we would leave files that its
// coordinator cannot open.
absl::StatusOr<common::UniqueFd> LockForCare(const Paths& paths);

struct CheckTotals {
  uint64_t findings = 0;
  bool has_contents = false;  // the database could be read whole
  DatabaseContents contents;
  BlobTotals blobs;
  SegmentTotals segments;
  SampleTotals samples;
  bool high_water_is_behind = false;  // or missing
};

// Reads everything and changes nothing; `quick`: checkpoint files by their sizes only. Damage goes
// to `found`; an error is one of reading the disk.
absl::Status CheckData(const Paths& paths, bool quick, const Found& found, CheckTotals* totals);

// Says what it changed, one sentence each.
using Changed = std::function<void(const std::string& path, const std::string& what)>;

// After CheckData, what loses nothing: damaged stretches of logs and metrics become gaps, damaged
// checkpoint files are set aside, stale uploads go, HIGHWATER is written again. A damaged database
// is left as it is.
absl::Status RepairData(const Paths& paths, const CheckTotals& totals, int64_t wall_ms,
                        const Changed& changed);

}  // namespace muster::coordinator
