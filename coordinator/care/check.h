// `muster-coordinator check` and `repair`: verify and repair a whole data directory that no
// coordinator is using. One thread; the caller holds LOCK.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "coordinator/base/damage.h"
#include "coordinator/local/blob_check.h"
#include "coordinator/local/sample_files.h"
#include "coordinator/local/segment_check.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/state_care.h"

namespace muster::coordinator {

// Takes LOCK for offline work on the directory. FAILED_PRECONDITION: a coordinator is running
// (JC1604), or this is not a data directory or belongs to another user (JC1608): files that we
// create there could not be opened by its coordinator.
absl::StatusOr<common::UniqueFd> LockForCare(const Paths& paths, const StateCare& state);

struct CheckTotals {
  uint64_t findings = 0;
  std::optional<StateContents> state;  // none: it could not be read whole
  bool can_mend_state = false;
  BlobTotals blobs;
  SegmentTotals segments;
  SampleTotals samples;
  uint64_t audit_entries = 0;
  uint64_t audit_first = 0;  // the first that is there
};

// Reads everything and changes nothing. `quick`: checks only the sizes of checkpoint files. Reports
// damage to `found`; returns an error only if the disk cannot be read.
absl::Status CheckData(const Paths& paths, const StateCare& state, bool quick,
                       const OnDamage& found, CheckTotals* totals);

// Called once for each change; `what` describes it in one sentence.
using Changed = std::function<void(const std::string& path, const std::string& what)>;

// Run after CheckData. Makes only the repairs that lose no data: damaged stretches of logs and
// metrics become gaps, damaged checkpoint files are set aside, stale uploads are removed, and what
// the state's engine can mend is mended. A damaged state is left unchanged.
absl::Status RepairData(const Paths& paths, const StateCare& state, const CheckTotals& totals,
                        int64_t wall_ms, const Changed& changed);

}  // namespace muster::coordinator
