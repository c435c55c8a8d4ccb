// The newest snapshot as rows: one row with everything, or, if its jobs are large, one row with everything else
// and a row of `snapshot_jobs` for each job. So no value comes near SQLite's limit of 10^9 bytes, and the whole
// snapshot is never one string.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

// Within a transaction.
absl::Status WriteSnapshotRows(Database& database, const v1::Snapshot& snapshot);

// nullopt: there is none. DATA_LOSS names what cannot be read. Its format may be a newer one.
absl::StatusOr<std::optional<v1::Snapshot>> ReadSnapshotRows(Database& database);

}  // namespace muster::coordinator
