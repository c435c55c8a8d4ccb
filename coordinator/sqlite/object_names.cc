#include "coordinator/sqlite/object_names.h"

#include "common/base/status.h"

namespace muster::coordinator {

absl::StatusOr<std::unique_ptr<ObjectNames>> SqliteObjectNames::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns, const common::Clock& clock) {
  std::unique_ptr<SqliteObjectNames> names(new SqliteObjectNames(turns, clock));
  ASSIGN_OR_RETURN(names->writer_, OpenForTurns(paths.Database(), *turns));
  ASSIGN_OR_RETURN(names->reader_, Database::Open(paths.Database(), Database::Mode::kReadOnly));
  RETURN_IF_ERROR(names->reader_->Execute("PRAGMA query_only=ON; PRAGMA wal_autocheckpoint=0"));
  return names;
}

absl::StatusOr<std::optional<NamedObject>> SqliteObjectNames::Find(
    const std::string& sha256) const {
  std::lock_guard lock(mutex_);
  return Read(*reader_, sha256);
}

absl::StatusOr<std::optional<NamedObject>> SqliteObjectNames::Read(
    Database& database, const std::string& sha256) const {
  ASSIGN_OR_RETURN(Statement find,
                   database.Prepare("SELECT key, bytes FROM objects WHERE sha256 = ?1"));
  ASSIGN_OR_RETURN(const bool row, find.BindText(1, sha256).Step());
  if (!row) return std::nullopt;
  return NamedObject{std::string(find.Bytes(0)), static_cast<uint64_t>(find.Integer(1))};
}

absl::Status SqliteObjectNames::Name(const std::string& sha256, const NamedObject& object) {
  std::lock_guard lock(writing_);
  return turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<NamedObject> before, Read(*writer_, sha256));
    if (before.has_value()) RETURN_IF_ERROR(DoomKey(before->key));
    ASSIGN_OR_RETURN(Statement put,
                     writer_->Prepare("INSERT OR REPLACE INTO objects VALUES(?1, ?2, ?3, ?4)"));
    return put.BindText(1, sha256)
        .BindText(2, object.key)
        .Bind(3, static_cast<int64_t>(object.bytes))
        .Bind(4, clock_.Read().lived_ms)
        .Run();
  });
}

absl::StatusOr<bool> SqliteObjectNames::Doom(const std::string& sha256) {
  bool was_named = false;
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<NamedObject> before, Read(*writer_, sha256));
    was_named = before.has_value();
    if (!was_named) return absl::OkStatus();
    ASSIGN_OR_RETURN(Statement remove, writer_->Prepare("DELETE FROM objects WHERE sha256 = ?1"));
    RETURN_IF_ERROR(remove.BindText(1, sha256).Run());
    return DoomKey(before->key);
  }));
  return was_named;
}

absl::Status SqliteObjectNames::DoomKey(const std::string& key) {
  ASSIGN_OR_RETURN(Statement doom,
                   writer_->Prepare("INSERT OR IGNORE INTO doomed_objects VALUES(?1, ?2)"));
  return doom.BindText(1, key).Bind(2, clock_.Read().lived_ms).Run();
}

absl::StatusOr<std::vector<std::string>> SqliteObjectNames::NamedBefore(int64_t lived_ms) const {
  return Texts("SELECT sha256 FROM objects WHERE named_ms < ?1 LIMIT ?2", lived_ms, -1);
}

absl::StatusOr<std::vector<std::string>> SqliteObjectNames::DoomedBefore(int64_t lived_ms,
                                                                         size_t most) const {
  return Texts("SELECT key FROM doomed_objects WHERE doomed_ms < ?1 LIMIT ?2", lived_ms,
               static_cast<int64_t>(most));
}

absl::StatusOr<std::vector<std::string>> SqliteObjectNames::Texts(const std::string& sql,
                                                                  int64_t one, int64_t two) const {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement rows, reader_->Prepare(sql));
  rows.Bind(1, one).Bind(2, two);
  std::vector<std::string> found;
  RETURN_IF_ERROR(ForRows(rows, [&](Statement& row) {
    found.emplace_back(row.Bytes(0));
    return absl::OkStatus();
  }));
  return found;
}

absl::Status SqliteObjectNames::Forget(const std::vector<std::string>& keys) {
  std::lock_guard lock(writing_);
  return turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Statement remove,
                     writer_->Prepare("DELETE FROM doomed_objects WHERE key = ?1"));
    for (const std::string& key : keys) RETURN_IF_ERROR(remove.BindText(1, key).Run());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> SqliteObjectNames::Unknown(
    const std::vector<std::string>& keys) const {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement find,
                   reader_->Prepare("SELECT 1 FROM objects WHERE key = ?1 UNION ALL "
                                    "SELECT 1 FROM doomed_objects WHERE key = ?1 LIMIT 1"));
  std::vector<std::string> unknown;
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(const bool row, find.BindText(1, key).Step());
    if (!row) unknown.push_back(key);
    find.Reset();
  }
  return unknown;
}

}  // namespace muster::coordinator
