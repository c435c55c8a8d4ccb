// The database seen by the commands that care for a data directory: read whole, without a
// coordinator's start, and copied while a coordinator serves. Opens it read-only except in
// AdvanceNumbers; never checkpoints its log. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/finding.h"
#include "coordinator/paths.h"
#include "coordinator/stores/blob_uses.h"

namespace muster::coordinator {

struct DatabaseContents {
  std::string cluster_id;
  uint64_t epoch = 0;
  uint64_t last_event = 0;
  uint64_t next_job = 1;
  uint64_t live_jobs = 0;
  uint64_t finished_jobs = 0;
  BlobUses blobs;
};

// Reads everything that a start reads, and the finished jobs' rows. The first damage is the error.
absl::StatusOr<DatabaseContents> ReadContents(const std::string& path);

// What SQLite finds wrong with the file: pages, trees, indexes; with `quick`, without the indexes.
absl::Status CheckPages(const std::string& path, bool quick, const Found& found);

// A consistent copy in one file, not synced. RESOURCE_EXHAUSTED: no room at `to`.
absl::Status CopyDatabase(const std::string& from, const std::string& to);

// How far the numbers of a restored database move on, past all that the lost coordinator may have
// given out since the backup.
struct Advance {
  uint64_t epoch_at_least = 0;
  uint64_t jobs = 0;
  uint32_t attempts = 0;
};
// Of the only copy of a restored database, before its first start.
absl::Status AdvanceNumbers(const Paths& paths, const Advance& advance);

}  // namespace muster::coordinator
