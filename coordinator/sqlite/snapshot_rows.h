// The newest snapshot in its rows: one of it all, or, where its jobs are large, of everything else, with a
// row of `snapshot_jobs` for each job. So no value comes near the 10^9 bytes that SQLite takes, and no
// string of the whole is made.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

// Within a transaction.
absl::Status WriteSnapshotRows(Database& database, const v1::Snapshot& snapshot);

// Nothing: there is none. DATA_LOSS names what cannot be read. Its format may be a newer one.
absl::StatusOr<std::optional<v1::Snapshot>> ReadSnapshotRows(Database& database);

}  // namespace muster::coordinator
