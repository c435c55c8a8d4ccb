#include "coordinator/sqlite/object_names.h"

#include <type_traits>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

// Of a query for a key and its bytes.
absl::StatusOr<std::optional<NamedObject>> ObjectIn(Statement& find) {
  ASSIGN_OR_RETURN(const bool row, find.Step());
  if (!row) return std::nullopt;
  return NamedObject{.key = std::string(find.Bytes(0)),
                     .bytes = static_cast<uint64_t>(find.Integer(1))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectNames>> SqliteObjectNames::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns, const common::Clock& clock) {
  std::unique_ptr<SqliteObjectNames> names(new SqliteObjectNames(turns, clock));
  ASSIGN_OR_RETURN(names->writer_, OpenForTurns(paths.Database(), *turns));
  ASSIGN_OR_RETURN(names->reader_, OpenReader(paths.Database()));
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
  return ObjectIn(find.BindText(1, sha256));
}

absl::StatusOr<std::optional<NamedObject>> SqliteObjectNames::FindSent(
    uint64_t job, const std::string& sha256) const {
  if (job == 0) return std::nullopt;  // what is of no job is read in pieces, too
  std::lock_guard lock(mutex_);
  return ReadSent(*reader_, job, sha256);
}

absl::StatusOr<std::optional<NamedObject>> SqliteObjectNames::ReadSent(
    Database& database, uint64_t job, const std::string& sha256) const {
  ASSIGN_OR_RETURN(
      Statement find,
      database.Prepare("SELECT key, bytes FROM sent_objects WHERE job = ?1 AND sha256 = ?2"));
  return ObjectIn(find.Bind(1, static_cast<int64_t>(job)).BindText(2, sha256));
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

absl::StatusOr<std::optional<SentUpload>> SqliteObjectNames::FindUpload(
    const std::string& sender, const std::string& sha256) const {
  std::lock_guard lock(mutex_);
  return ReadUpload(*reader_, sender, sha256);
}

absl::StatusOr<std::optional<SentUpload>> SqliteObjectNames::ReadUpload(
    Database& database, const std::string& sender, const std::string& sha256) const {
  ASSIGN_OR_RETURN(Statement find,
                   database.Prepare("SELECT key, upload, bytes FROM object_uploads WHERE "
                                    "sender = ?1 AND sha256 = ?2"));
  ASSIGN_OR_RETURN(const bool row, find.BindText(1, sender).BindText(2, sha256).Step());
  if (!row) return std::nullopt;
  return SentUpload{.key = std::string(find.Bytes(0)),
                    .id = std::string(find.Bytes(1)),
                    .bytes = static_cast<uint64_t>(find.Integer(2))};
}

absl::StatusOr<size_t> SqliteObjectNames::CountUploads(const std::string& sender) const {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement count,
                   reader_->Prepare("SELECT count(*) FROM object_uploads WHERE sender = ?1"));
  RETURN_IF_ERROR(count.BindText(1, sender).Step().status());
  return static_cast<size_t>(count.Integer(0));
}

absl::StatusOr<SentUpload> SqliteObjectNames::KeepUpload(const std::string& sender,
                                                         const std::string& sha256,
                                                         const SentUpload& upload) {
  SentUpload kept = upload;
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<SentUpload> before, ReadUpload(*writer_, sender, sha256));
    if (before.has_value()) {
      kept = *before;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(Statement put,
                     writer_->Prepare("INSERT INTO object_uploads VALUES(?1, ?2, ?3, ?4, ?5, ?6)"));
    return put.BindText(1, sender)
        .BindText(2, sha256)
        .BindText(3, upload.key)
        .BindText(4, upload.id)
        .Bind(5, static_cast<int64_t>(upload.bytes))
        .Bind(6, clock_.Read().lived_ms)
        .Run();
  }));
  return kept;
}

absl::StatusOr<bool> SqliteObjectNames::NameUpload(const std::string& sender, uint64_t job,
                                                   const std::string& sha256,
                                                   const SentUpload& upload) {
  bool is_named = false;
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<SentUpload> begun, ReadUpload(*writer_, sender, sha256));
    ASSIGN_OR_RETURN(const std::optional<NamedObject> before, ReadSent(*writer_, job, sha256));
    is_named = before.has_value();
    if (is_named && before->key == upload.key) return absl::OkStatus();  // by another call
    const bool is_begun = begun.has_value() && begun->key == upload.key;
    if (is_begun) RETURN_IF_ERROR(RemoveUpload(sender, sha256, upload.key));
    if (!is_begun || is_named) return DoomKey(upload.key);
    is_named = true;
    ASSIGN_OR_RETURN(Statement put,
                     writer_->Prepare("INSERT INTO sent_objects VALUES(?1, ?2, ?3, ?4, ?5)"));
    return put.Bind(1, static_cast<int64_t>(job))
        .BindText(2, sha256)
        .BindText(3, upload.key)
        .Bind(4, static_cast<int64_t>(upload.bytes))
        .Bind(5, clock_.Read().lived_ms)
        .Run();
  }));
  return is_named;
}

absl::Status SqliteObjectNames::DropUpload(const std::string& sender, const std::string& sha256,
                                           const std::string& key) {
  std::lock_guard lock(writing_);
  return turns_->Write(*writer_, [&] { return RemoveUpload(sender, sha256, key); });
}

absl::Status SqliteObjectNames::RemoveUpload(const std::string& sender, const std::string& sha256,
                                             const std::string& key) {
  ASSIGN_OR_RETURN(Statement remove,
                   writer_->Prepare("DELETE FROM object_uploads WHERE sender = ?1 AND sha256 = ?2 "
                                    "AND key = ?3"));
  return remove.BindText(1, sender).BindText(2, sha256).BindText(3, key).Run();
}

absl::Status SqliteObjectNames::DropUploadsBefore(int64_t lived_ms) {
  std::lock_guard lock(writing_);
  return turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Statement remove,
                     writer_->Prepare("DELETE FROM object_uploads WHERE begun_ms < ?1"));
    return remove.Bind(1, lived_ms).Run();
  });
}

absl::StatusOr<bool> SqliteObjectNames::Doom(const std::string& sha256) {
  bool was_named = false;
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<NamedObject> before, Read(*writer_, sha256));
    ASSIGN_OR_RETURN(const bool was_sent, DoomSentWhere("sha256", sha256));
    was_named = before.has_value() || was_sent;
    if (!before.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(Statement remove, writer_->Prepare("DELETE FROM objects WHERE sha256 = ?1"));
    RETURN_IF_ERROR(remove.BindText(1, sha256).Run());
    return DoomKey(before->key);
  }));
  return was_named;
}

absl::Status SqliteObjectNames::DoomSent(uint64_t job) {
  std::lock_guard lock(writing_);
  return turns_->Write(*writer_, [&]() -> absl::Status {
    return DoomSentWhere("job", static_cast<int64_t>(job)).status();
  });
}

template <typename Value>
absl::StatusOr<bool> SqliteObjectNames::DoomSentWhere(const std::string& column,
                                                      const Value& value) {
  const auto bind = [&](Statement& statement) {
    if constexpr (std::is_integral_v<Value>) {
      statement.Bind(1, value);
    } else {
      statement.BindText(1, value);
    }
  };
  const std::string where = common::StrCat(" FROM sent_objects WHERE ", column, " = ?1");
  std::vector<std::string> keys;
  ASSIGN_OR_RETURN(Statement rows, writer_->Prepare("SELECT key" + where));
  bind(rows);
  RETURN_IF_ERROR(ForRows(rows, [&](Statement& row) {
    keys.emplace_back(row.Bytes(0));
    return absl::OkStatus();
  }));
  if (keys.empty()) return false;
  ASSIGN_OR_RETURN(Statement remove, writer_->Prepare("DELETE" + where));
  bind(remove);
  RETURN_IF_ERROR(remove.Run());
  for (const std::string& key : keys) RETURN_IF_ERROR(DoomKey(key));
  return true;
}

absl::Status SqliteObjectNames::DoomKey(const std::string& key) {
  ASSIGN_OR_RETURN(Statement doom,
                   writer_->Prepare("INSERT OR IGNORE INTO doomed_objects VALUES(?1, ?2)"));
  return doom.BindText(1, key).Bind(2, clock_.Read().lived_ms).Run();
}

absl::StatusOr<std::vector<std::string>> SqliteObjectNames::NamedBefore(int64_t lived_ms) const {
  ASSIGN_OR_RETURN(
      std::vector<std::string> named,
      Texts("SELECT sha256 FROM objects WHERE named_ms < ?1 UNION SELECT sha256 FROM sent_objects "
            "WHERE named_ms < ?1 LIMIT ?2",
            lived_ms, -1));
  std::erase(named, kStoreMark);
  return named;
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
                                    "SELECT 1 FROM sent_objects WHERE key = ?1 UNION ALL "
                                    "SELECT 1 FROM doomed_objects WHERE key = ?1 UNION ALL "
                                    "SELECT 1 FROM object_uploads WHERE key = ?1 LIMIT 1"));
  std::vector<std::string> unknown;
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(const bool row, find.BindText(1, key).Step());
    if (!row) unknown.push_back(key);
    find.Reset();
  }
  return unknown;
}

}  // namespace muster::coordinator
