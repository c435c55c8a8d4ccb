// How far a copy of the database is, and of which log (stores/commit_log.h). The table exists only in copies; it
// changes in the same transaction as the rest, and is itself no part of the log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"

namespace muster::coordinator {

inline constexpr std::string_view kReplicaTable = "replica";

struct ReplicaMark {
  std::string log;        // its id; empty: the database is not a copy
  uint64_t position = 0;  // of the last entry that it has
};

absl::StatusOr<ReplicaMark> ReadReplicaMark(Database& database);
// Makes the table.
absl::Status BeginReplica(Database& database, const std::string& log);
// In the transaction that has the entry's changes.
absl::Status MoveReplica(Database& database, uint64_t position);

}  // namespace muster::coordinator
