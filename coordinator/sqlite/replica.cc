#include "coordinator/sqlite/replica.h"

#include "common/base/status.h"
#include "coordinator/sqlite/changes.h"
#include "coordinator/sqlite/schema.h"
#include "coordinator/sqlite/write_turns.h"

namespace muster::coordinator {

absl::StatusOr<std::unique_ptr<Replica>> SqliteReplica::Open(const Paths& paths) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(paths.Database(), Database::Mode::kReadWrite));
  std::unique_ptr<SqliteReplica> replica(new SqliteReplica(std::move(database)));
  RETURN_IF_ERROR(replica->Prepare(paths.Database()));
  return replica;
}

absl::Status SqliteReplica::Prepare(const std::string& path) {
  RETURN_IF_ERROR(PrepareSchema(*database_, path));
  // After a power failure the last entries may be missing: the log has them.
  RETURN_IF_ERROR(database_->Execute("PRAGMA synchronous=NORMAL"));
  ASSIGN_OR_RETURN(mark_, ReadReplicaMark(*database_));
  // Every coordinator that has ever led has raised the epoch, and init leaves identities.
  ASSIGN_OR_RETURN(const int64_t written,
                   database_->Scalar("SELECT (SELECT value FROM meta WHERE key = 'epoch') + "
                                     "(SELECT count(*) FROM identities)"));
  is_empty_ = written == 0;
  return absl::OkStatus();
}

absl::Status SqliteReplica::Follow(const std::string& log) {
  RETURN_IF_ERROR(BeginReplica(*database_, log));
  mark_ = {.log = log};
  return absl::OkStatus();
}

absl::Status SqliteReplica::Apply(uint64_t position, std::string_view changes) {
  RETURN_IF_ERROR(Transact(*database_, [&] {
    RETURN_IF_ERROR(ApplyChanges(*database_, changes));
    return MoveReplica(*database_, position);
  }));
  mark_.position = position;
  is_empty_ = false;
  return absl::OkStatus();
}

}  // namespace muster::coordinator
