#include "coordinator/sqlite/database/replica_tables.h"

#include "common/base/status.h"

namespace muster::coordinator {
namespace {

constexpr char kTable[] = R"sql(
CREATE TABLE IF NOT EXISTS replica(
  id INTEGER PRIMARY KEY CHECK(id = 1), log TEXT NOT NULL, position INTEGER NOT NULL) STRICT;
)sql";

}  // namespace

absl::StatusOr<ReplicaMark> ReadReplicaMark(Database& database) {
  ASSIGN_OR_RETURN(const bool is_copy, database.HasTable(std::string(kReplicaTable)));
  if (!is_copy) return ReplicaMark();
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT log, position FROM replica"));
  ASSIGN_OR_RETURN(const bool found, row.Step());
  if (!found) return ReplicaMark();
  return ReplicaMark{std::string(row.Bytes(0)), static_cast<uint64_t>(row.Integer(1))};
}

absl::Status BeginReplica(Database& database, const std::string& log) {
  RETURN_IF_ERROR(database.Execute(kTable));
  ASSIGN_OR_RETURN(Statement put,
                   database.Prepare("INSERT OR REPLACE INTO replica VALUES(1, ?1, 0)"));
  return put.BindText(1, log).Run();
}

absl::Status MoveReplica(Database& database, uint64_t position) {
  ASSIGN_OR_RETURN(Statement move, database.Prepare("UPDATE replica SET position = ?1"));
  RETURN_IF_ERROR(move.Bind(1, static_cast<int64_t>(position)).Run());
  if (database.Changes() == 1) return absl::OkStatus();
  return absl::DataLossError("the table replica has no row");
}

}  // namespace muster::coordinator
