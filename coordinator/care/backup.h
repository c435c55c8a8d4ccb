// `muster-coordinator backup`: makes a consistent copy of a data directory, whether its coordinator
// is serving or stopped. Only reads the data directory. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/base/damage.h"
#include "coordinator/care/copy_file.h"
#include "coordinator/stores/state_care.h"

namespace muster::coordinator {

struct BackupRequest {
  std::string data_dir;
  std::string to;
};

struct BackupTotals {
  uint64_t number = 0;
  uint64_t last_event = 0;
  uint64_t live_jobs = 0;
  uint64_t finished_jobs = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t copied_files = 0;  // the others were already in the target
  uint64_t copied_bytes = 0;
};

// Calls `found` for each file that could not be saved because it is damaged or missing in the data
// directory; the backup is complete except for these. After an error, the last complete backup in
// the target is unchanged.
absl::StatusOr<BackupTotals> MakeBackup(const BackupRequest& request, const StateCare& state,
                                        const OnDamage& found, const CopyProgress& progress);

}  // namespace muster::coordinator
