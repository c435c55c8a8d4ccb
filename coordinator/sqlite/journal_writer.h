// Writes one transaction of the journal: the rows of a group of turns and of the projection. The journal's
// thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/job_rows.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/stores/commit_log.h"
#include "coordinator/stores/journal.h"

namespace muster::coordinator {

class JournalWriter {
 public:
  // The statements are prepared once. `epoch` guards each transaction.
  // `log`: as Transact has it.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Make(Database& database, uint64_t epoch,
                                                             Carried carried,
                                                             CommitLog* log = nullptr);
  // Call it in the journal's turn. Commits all records or none. ABORTED: another coordinator has
  // raised the epoch.
  absl::Status Commit(const std::vector<JournalRecord>& records);

 private:
  JournalWriter(Database& database, uint64_t epoch, CommitLog* log)
      : database_(database), epoch_(epoch), log_(log) {}
  absl::Status Prepare();
  absl::Status WriteAll(const std::vector<JournalRecord>& records);
  absl::Status WriteEvents(const std::vector<v1::Event>& events);
  absl::Status WriteSnapshot(const v1::Snapshot& snapshot);

  Database& database_;
  const uint64_t epoch_;
  CommitLog* const log_;
  struct Statements {
    Statement guard, event, remove_late, forget_removed, remove_events;
  };
  std::optional<Statements> statements_;
  std::unique_ptr<JobRows> jobs_;  // null: the projection is updated from the log instead
};

}  // namespace muster::coordinator
