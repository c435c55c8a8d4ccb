// Notes in the database, so that they reach other coordinators with it (stores/commit_log.h).
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/stores/note_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteNoteStore final : public NoteStore {
 public:
  // The database has its schema.
  static absl::StatusOr<std::unique_ptr<NoteStore>> Open(const Paths& paths,
                                                         std::shared_ptr<WriteTurns> turns);
  // While another connection has the database open.
  static absl::StatusOr<std::string> ReadOnce(const Paths& paths, Note note);
  absl::StatusOr<std::string> Read(Note note) const override;
  absl::Status Write(Note note, const std::string& text) override;
  // As Write, but not as often as it is called.
  absl::Status WriteSoon(Note note, const std::string& text) override;
  std::string Place(Note note) const override;

 private:
  SqliteNoteStore(std::string path, std::shared_ptr<WriteTurns> turns)
      : path_(std::move(path)), turns_(std::move(turns)) {}

  const std::string path_;
  const std::shared_ptr<WriteTurns> turns_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<Database> database_;
  int64_t not_before_ms_ = 0;  // when WriteSoon writes again; CLOCK_BOOTTIME
};

}  // namespace muster::coordinator
