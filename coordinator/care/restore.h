// `muster-coordinator restore`: creates a new data directory from a backup. One thread.
//
// The lost coordinator continued after the backup was made: it restarted (raising its epoch),
// accepted jobs and began attempts, and the workers remember these numbers. A restored coordinator
// must not use any of them again: its epoch becomes the time of the restore in Unix
// milliseconds (no coordinator starts a thousand times a second), and its job and attempt numbers
// leave a gap that grows with the age of the backup.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/base/damage.h"
#include "coordinator/care/copy_file.h"
#include "coordinator/stores/state_care.h"

namespace muster::coordinator {

struct RestoreRequest {
  std::string from;
  std::string data_dir;  // does not exist, or is empty
  int64_t wall_ms = 0;   // now
};

struct RestoreTotals {
  int64_t made_ms = 0;  // when the backup was made
  uint64_t last_event = 0;
  uint64_t live_jobs = 0;
  uint64_t finished_jobs = 0;
  uint64_t next_job = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  bool newer_was_interrupted = false;
};

// Calls `found` for each log, metric or checkpoint file that the backup has lost; everything else
// is restored. A lost database is an error. The database is put in place last: a coordinator
// refuses to start on a directory whose restore was interrupted.
absl::StatusOr<RestoreTotals> RestoreBackup(const RestoreRequest& request, const StateCare& state,
                                            const OnDamage& found, const CopyProgress& progress);

}  // namespace muster::coordinator
