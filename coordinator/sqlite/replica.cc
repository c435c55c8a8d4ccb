#include "coordinator/sqlite/replica.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/archive/archive_changes.h"
#include "coordinator/sqlite/database/changes.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/sqlite/offline.h"
#include "coordinator/sqlite/schema.h"

namespace muster::coordinator {

absl::StatusOr<std::unique_ptr<Replica>> SqliteReplica::Open(const Paths& paths,
                                                             std::shared_ptr<BlobStore> blobs) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(paths.Database(), Database::Mode::kReadWrite));
  std::unique_ptr<SqliteReplica> replica(
      new SqliteReplica(paths, std::move(blobs), std::move(database)));
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

absl::Status SqliteReplica::Leave() {
  RETURN_IF_ERROR(Transact(*database_, [&] {
    RETURN_IF_ERROR(
        database_->Execute("DELETE FROM notes; DELETE FROM audit; DELETE FROM archive WHERE kind = "
                           "2; DROP TABLE replica"));
    ASSIGN_OR_RETURN(const int64_t archived, database_->Scalar("SELECT count(*) FROM archive"));
    return archived == 0 ? absl::OkStatus() : MarkNewest(*database_);
  }));
  mark_ = {};
  return absl::OkStatus();
}

absl::Status SqliteReplica::Apply(uint64_t position, std::string_view changes) {
  std::vector<std::string> unused;
  if (blobs_ != nullptr) {
    ASSIGN_OR_RETURN(unused, FollowArchive(*database_, *blobs_, paths_, changes));
  }
  RETURN_IF_ERROR(Transact(*database_, [&] {
    RETURN_IF_ERROR(ApplyChanges(*database_, changes));
    return MoveReplica(*database_, position);
  }));
  for (const std::string& blob : unused) blobs_->Delete(blob);
  mark_.position = position;
  is_empty_ = false;
  return absl::OkStatus();
}

namespace {

absl::StatusOr<ReplicaMark> MarkOf(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   Database::Open(path, Database::Mode::kReadWrite));
  ASSIGN_OR_RETURN(const std::string sound, database->Texts("PRAGMA quick_check(1)"));
  if (sound != "ok") return absl::DataLossError(common::StrCat(path, ": ", sound));
  return ReadReplicaMark(*database);
}

}  // namespace

absl::StatusOr<std::string> SqliteReplicaHome::Stage() {
  const std::string path = paths_.Database() + ".part";
  for (const char* end : {"", "-wal", "-shm", "-journal"})
    RETURN_IF_ERROR(common::RemoveTree(path + end));
  return path;
}

absl::StatusOr<uint64_t> SqliteReplicaHome::Save(const std::string& to) {
  RETURN_IF_ERROR(CopyDatabase(paths_.Database(), to));
  ASSIGN_OR_RETURN(const ReplicaMark mark, MarkOf(to));
  return mark.position;
}

// The copy that is replaced has the rows of what left the state since.
absl::Status SqliteReplicaHome::KeepArchived(const std::string& newer) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> here,
                   Database::Open(paths_.Database(), Database::Mode::kReadWrite));
  RETURN_IF_ERROR(PrepareSchema(*here, paths_.Database()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> there,
                   Database::Open(newer, Database::Mode::kReadWrite));
  return KeepMovedParts(*here, *there, *blobs_, paths_);
}

absl::Status SqliteReplicaHome::Replace(const std::string& from, const std::string& log,
                                        uint64_t position) {
  ASSIGN_OR_RETURN(const ReplicaMark mark, MarkOf(from));
  if (mark.log != log || mark.position != position) {
    return absl::DataLossError(common::StrCat("a copy of the log ", mark.log, " up to ",
                                              mark.position, " was found where one of ", log,
                                              " up to ", position, " should be"));
  }
  if (blobs_ != nullptr) RETURN_IF_ERROR(KeepArchived(from));
  // What these have is newer than nothing that the log has not.
  for (const char* end : {"-wal", "-shm"})
    RETURN_IF_ERROR(common::RemoveTree(paths_.Database() + end));
  if (rename(from.c_str(), paths_.Database().c_str()) != 0)
    return common::ErrnoStatus(common::StrCat("cannot put ", paths_.Database(), " into place"));
  return common::SyncDirectory(paths_.Root());
}

}  // namespace muster::coordinator
