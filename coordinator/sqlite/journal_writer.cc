#include "coordinator/sqlite/journal_writer.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/sqlite/snapshot_rows.h"

namespace muster::coordinator {

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Make(Database& database,
                                                                   uint64_t epoch, Carried carried,
                                                                   CommitLog* log) {
  std::unique_ptr<JournalWriter> writer(new JournalWriter(database, epoch, log));
  RETURN_IF_ERROR(writer->Prepare());
  if (carried == Carried::kJobs) {
    ASSIGN_OR_RETURN(writer->jobs_, JobRows::Make(database));
  }
  return writer;
}

absl::Status JournalWriter::Prepare() {
  ASSIGN_OR_RETURN(Statement guard, database_.Prepare("UPDATE meta SET value = value WHERE key = "
                                                      "'epoch' AND value = ?1"));
  ASSIGN_OR_RETURN(Statement event,
                   database_.Prepare("INSERT INTO events VALUES(?1, ?2, ?3, ?4, ?5)"));
  ASSIGN_OR_RETURN(Statement remove_late,
                   database_.Prepare("INSERT OR IGNORE INTO removed_jobs VALUES(?1)"));
  ASSIGN_OR_RETURN(
      Statement remove_events,
      database_.Prepare("DELETE FROM events WHERE seq <= ?1 AND job IN (SELECT job FROM "
                        "removed_jobs) AND job != 0"));
  // Some events of the other jobs are still needed.
  ASSIGN_OR_RETURN(
      Statement forget_removed,
      database_.Prepare("DELETE FROM removed_jobs WHERE job NOT IN (SELECT job FROM events "
                        "WHERE seq > ?1)"));
  statements_.emplace(Statements{.guard = std::move(guard),
                                 .event = std::move(event),
                                 .remove_late = std::move(remove_late),
                                 .forget_removed = std::move(forget_removed),
                                 .remove_events = std::move(remove_events)});
  return absl::OkStatus();
}

absl::Status JournalWriter::Commit(const std::vector<JournalRecord>& records) {
  return Transact(
      database_, [&] { return WriteAll(records); }, log_);
}

absl::Status JournalWriter::WriteAll(const std::vector<JournalRecord>& records) {
  RETURN_IF_ERROR(statements_->guard.Bind(1, static_cast<int64_t>(epoch_)).Run());
  if (database_.Changes() != 1) {
    return absl::AbortedError("another muster-coordinator has taken over this data directory");
  }
  for (const JournalRecord& record : records) {
    if (record.events != nullptr) RETURN_IF_ERROR(WriteEvents(*record.events));
    if (record.facts != nullptr && jobs_ != nullptr) RETURN_IF_ERROR(jobs_->Take(*record.facts));
    if (record.snapshot != nullptr) RETURN_IF_ERROR(WriteSnapshot(*record.snapshot));
  }
  return absl::OkStatus();
}

absl::Status JournalWriter::WriteEvents(const std::vector<v1::Event>& events) {
  std::string bytes;
  for (const v1::Event& event : events) {
    event.SerializeToString(&bytes);
    RETURN_IF_ERROR(statements_->event.Bind(1, static_cast<int64_t>(event.seq()))
                        .Bind(2, static_cast<int64_t>(event.job()))
                        .BindText(3, event.node())
                        .Bind(4, event.at_ms())
                        .BindBlob(5, bytes)
                        .Run());
    // Its events above the newest snapshot stay until the next one: replay needs them without gaps.
    if (event.has_job_removed())
      RETURN_IF_ERROR(statements_->remove_late.Bind(1, static_cast<int64_t>(event.job())).Run());
  }
  return absl::OkStatus();
}

absl::Status JournalWriter::WriteSnapshot(const v1::Snapshot& snapshot) {
  RETURN_IF_ERROR(WriteSnapshotRows(database_, snapshot));
  const int64_t seq = static_cast<int64_t>(snapshot.seq());
  RETURN_IF_ERROR(statements_->remove_events.Bind(1, seq).Run());
  return statements_->forget_removed.Bind(1, seq).Run();
}

}  // namespace muster::coordinator
