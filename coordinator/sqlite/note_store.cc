#include "coordinator/sqlite/note_store.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

// An entry of the log for each would outnumber those of the jobs.
constexpr int64_t kWrittenSoonEveryMs = 60'000;

std::string_view NameOf(Note note) {
  switch (note) {
    case Note::kNotify:
      return "notify";
    case Note::kLived:
      return "lived";
    case Note::kHttpSecret:
      return "http-secret";
    case Note::kMetricsSecret:
      return "metrics-secret";
  }
  return "";
}

std::string PlaceOf(Note note, const std::string& path) {
  return common::StrCat("the note ", NameOf(note), " in ", path);
}

absl::StatusOr<std::string> ReadNote(Database& database, Note note, const std::string& path) {
  ASSIGN_OR_RETURN(Statement find, database.Prepare("SELECT text FROM notes WHERE name = ?1"));
  ASSIGN_OR_RETURN(const bool row, find.BindText(1, NameOf(note)).Step());
  if (!row) return absl::NotFoundError(common::StrCat(PlaceOf(note, path), " was never written"));
  return std::string(find.Bytes(0));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NoteStore>> SqliteNoteStore::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns) {
  std::unique_ptr<SqliteNoteStore> store(new SqliteNoteStore(paths.Database(), turns));
  ASSIGN_OR_RETURN(store->database_,
                   OpenForTurns(paths.Database(), *turns, "PRAGMA synchronous=NORMAL"));
  return store;
}

std::string SqliteNoteStore::Place(Note note) const { return PlaceOf(note, path_); }

absl::StatusOr<std::string> SqliteNoteStore::ReadOnce(const Paths& paths, Note note) {
  // Read only: as the last to close, it would take away what another connection has written.
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   Database::Open(paths.Database(), Database::Mode::kReadOnly));
  return ReadNote(*database, note, paths.Database());
}

absl::StatusOr<std::string> SqliteNoteStore::Read(Note note) const {
  std::lock_guard lock(mutex_);
  return ReadNote(*database_, note, path_);
}

absl::Status SqliteNoteStore::Write(Note note, const std::string& text) {
  std::lock_guard lock(mutex_);
  return turns_->Write(*database_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Statement put,
                     database_->Prepare("INSERT OR REPLACE INTO notes VALUES(?1, ?2)"));
    return put.BindText(1, NameOf(note)).BindBlob(2, text).Run();
  });
}

absl::Status SqliteNoteStore::WriteSoon(Note note, const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    const int64_t now_ms = common::MonotonicMs();
    if (now_ms < not_before_ms_) return absl::OkStatus();
    not_before_ms_ = now_ms + kWrittenSoonEveryMs;
  }
  return Write(note, text);
}

}  // namespace muster::coordinator
