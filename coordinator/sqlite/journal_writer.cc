#include "coordinator/sqlite/journal_writer.h"

#include <set>
#include <string>
#include <utility>

#include "common/status.h"
#include "common/strings.h"
#include "coordinator/core/checkpoint_files.h"
#include "coordinator/core/owner.h"
#include "coordinator/sqlite/snapshot_rows.h"
#include "coordinator/sqlite/write_turns.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Make(Database& database,
                                                                   uint64_t epoch) {
  std::unique_ptr<JournalWriter> writer(new JournalWriter(database, epoch));
  RETURN_IF_ERROR(writer->Prepare());
  return writer;
}

absl::Status JournalWriter::Prepare() {
  ASSIGN_OR_RETURN(Statement guard, database_.Prepare("UPDATE meta SET value = value WHERE key = "
                                                      "'epoch' AND value = ?1"));
  ASSIGN_OR_RETURN(Statement event,
                   database_.Prepare("INSERT INTO events VALUES(?1, ?2, ?3, ?4, ?5)"));
  ASSIGN_OR_RETURN(Statement job,
                   database_.Prepare("INSERT OR REPLACE INTO jobs VALUES(?1, ?2, ?3, ?4, ?5, ?6, "
                                     "?7, ?8, ?9)"));
  ASSIGN_OR_RETURN(Statement record,
                   database_.Prepare("INSERT OR REPLACE INTO job_records VALUES(?1, ?2)"));
  // A row that is rewritten keeps its age.
  ASSIGN_OR_RETURN(Statement life,
                   database_.Prepare("INSERT OR IGNORE INTO job_lives VALUES(?1, ?2)"));
  ASSIGN_OR_RETURN(Statement blob_ref,
                   database_.Prepare("INSERT OR IGNORE INTO blob_refs VALUES(?1, ?2)"));
  ASSIGN_OR_RETURN(Statement remove_job, database_.Prepare("DELETE FROM jobs WHERE id = ?1"));
  ASSIGN_OR_RETURN(Statement remove_record,
                   database_.Prepare("DELETE FROM job_records WHERE id = ?1"));
  ASSIGN_OR_RETURN(Statement remove_life,
                   database_.Prepare("DELETE FROM job_lives WHERE job = ?1"));
  ASSIGN_OR_RETURN(Statement remove_refs,
                   database_.Prepare("DELETE FROM blob_refs WHERE job = ?1"));
  ASSIGN_OR_RETURN(Statement code,
                   database_.Prepare("INSERT OR REPLACE INTO job_code VALUES(?1, ?2, ?3, ?4)"));
  ASSIGN_OR_RETURN(Statement remove_code, database_.Prepare("DELETE FROM job_code WHERE job = ?1"));
  ASSIGN_OR_RETURN(Statement remove_late,
                   database_.Prepare("INSERT OR IGNORE INTO removed_jobs VALUES(?1)"));
  ASSIGN_OR_RETURN(
      Statement remove_events,
      database_.Prepare("DELETE FROM events WHERE seq <= ?1 AND job IN (SELECT job FROM "
                        "removed_jobs) AND job != 0"));
  statements_.emplace(Statements{
      std::move(guard), std::move(event), std::move(job), std::move(record), std::move(life),
      std::move(blob_ref), std::move(remove_job), std::move(remove_record), std::move(remove_life),
      std::move(remove_refs), std::move(code), std::move(remove_code), std::move(remove_late),
      std::move(remove_events)});
  return absl::OkStatus();
}

absl::Status JournalWriter::Commit(const std::vector<JournalRecord>& records) {
  return Transact(database_, [&] { return WriteAll(records); });
}

absl::Status JournalWriter::WriteAll(const std::vector<JournalRecord>& records) {
  RETURN_IF_ERROR(statements_->guard.Bind(1, static_cast<int64_t>(epoch_)).Run());
  if (database_.Changes() != 1) {
    return absl::AbortedError("another muster-coordinator has taken over this data directory");
  }
  for (const JournalRecord& record : records) {
    if (record.events != nullptr) RETURN_IF_ERROR(WriteEvents(*record.events));
    for (const FinishedJob& job : record.finished) {
      RETURN_IF_ERROR(WriteFinished(job, record.lived_ms));
    }
    for (const uint64_t job : record.removed_jobs) RETURN_IF_ERROR(WriteRemoved(job));
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
  }
  return absl::OkStatus();
}

absl::Status JournalWriter::WriteFinished(const FinishedJob& job, int64_t lived_ms) {
  const v1::JobRecord& record = *job.record;
  const int64_t id = static_cast<int64_t>(record.id());
  const std::string summary = job.summary.SerializeAsString();
  const std::string owner = OwnerKey(record);
  RETURN_IF_ERROR(statements_->job.Bind(1, id)
                      .BindText(2, record.name())
                      .BindText(3, owner)
                      .Bind(4, record.state())
                      .Bind(5, record.submitted_ms())
                      .Bind(6, record.finished_ms())
                      .BindText(7, record.idempotency_key())
                      .Bind(8, static_cast<int64_t>(record.spec_hash()))
                      .BindBlob(9, summary)
                      .Run());
  const std::string bytes = record.SerializeAsString();
  RETURN_IF_ERROR(statements_->record.Bind(1, id).BindBlob(2, bytes).Run());
  RETURN_IF_ERROR(statements_->life.Bind(1, id).Bind(2, lived_ms).Run());
  RETURN_IF_ERROR(statements_->remove_refs.Bind(1, id).Run());
  std::set<std::string> blobs;
  ForEachSaved(record, [&](const v1::Checkpoint& checkpoint) {
    for (const v1::CheckpointFile& file : checkpoint.files()) blobs.insert(file.sha256());
  });
  for (const std::string& blob : blobs) {
    RETURN_IF_ERROR(statements_->blob_ref.BindText(1, blob).Bind(2, id).Run());
  }
  return WriteCode(record);
}

absl::Status JournalWriter::WriteCode(const v1::JobRecord& record) {
  if (!record.spec().has_code()) return absl::OkStatus();
  const CodeName code = CodeNameOf(record.spec());
  return statements_->code.Bind(1, static_cast<int64_t>(record.id()))
      .BindText(2, code.project)
      .BindText(3, code.tree)
      .BindText(4, code.placement)
      .Run();
}

// Events above the newest snapshot stay until the next one: replay needs them without gaps.
absl::Status JournalWriter::WriteRemoved(uint64_t job) {
  const int64_t id = static_cast<int64_t>(job);
  RETURN_IF_ERROR(statements_->remove_job.Bind(1, id).Run());
  RETURN_IF_ERROR(statements_->remove_record.Bind(1, id).Run());
  RETURN_IF_ERROR(statements_->remove_life.Bind(1, id).Run());
  RETURN_IF_ERROR(statements_->remove_refs.Bind(1, id).Run());
  RETURN_IF_ERROR(statements_->remove_code.Bind(1, id).Run());
  return statements_->remove_late.Bind(1, id).Run();
}

absl::Status JournalWriter::WriteSnapshot(const v1::Snapshot& snapshot) {
  RETURN_IF_ERROR(WriteSnapshotRows(database_, snapshot));
  RETURN_IF_ERROR(statements_->remove_events.Bind(1, static_cast<int64_t>(snapshot.seq())).Run());
  return database_.Execute("DELETE FROM removed_jobs");
}

}  // namespace muster::coordinator
