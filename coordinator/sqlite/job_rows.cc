#include "coordinator/sqlite/job_rows.h"

#include <set>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

absl::StatusOr<std::unique_ptr<JobRows>> JobRows::Make(Database& database) {
  auto rows = std::make_unique<JobRows>();
  RETURN_IF_ERROR(rows->Prepare(database));
  return rows;
}

absl::Status JobRows::Prepare(Database& database) {
  ASSIGN_OR_RETURN(Statement job,
                   database.Prepare("INSERT OR REPLACE INTO jobs VALUES(?1, ?2, ?3, ?4, ?5, ?6, "
                                    "?7, ?8, ?9)"));
  ASSIGN_OR_RETURN(Statement record,
                   database.Prepare("INSERT OR REPLACE INTO job_records VALUES(?1, ?2)"));
  // A rewritten row keeps its age.
  ASSIGN_OR_RETURN(Statement life,
                   database.Prepare("INSERT OR IGNORE INTO job_lives VALUES(?1, ?2)"));
  ASSIGN_OR_RETURN(Statement blob_ref,
                   database.Prepare("INSERT OR IGNORE INTO blob_refs VALUES(?1, ?2)"));
  ASSIGN_OR_RETURN(Statement remove_job, database.Prepare("DELETE FROM jobs WHERE id = ?1"));
  ASSIGN_OR_RETURN(Statement remove_record,
                   database.Prepare("DELETE FROM job_records WHERE id = ?1"));
  ASSIGN_OR_RETURN(Statement remove_life, database.Prepare("DELETE FROM job_lives WHERE job = ?1"));
  ASSIGN_OR_RETURN(Statement remove_refs, database.Prepare("DELETE FROM blob_refs WHERE job = ?1"));
  ASSIGN_OR_RETURN(Statement code,
                   database.Prepare("INSERT OR REPLACE INTO job_code VALUES(?1, ?2, ?3, ?4)"));
  ASSIGN_OR_RETURN(Statement remove_code, database.Prepare("DELETE FROM job_code WHERE job = ?1"));
  ASSIGN_OR_RETURN(Statement remove_archived,
                   database.Prepare("DELETE FROM archive WHERE kind = 1 AND key = ?1"));
  statements_.emplace(Statements{
      std::move(job), std::move(record), std::move(life), std::move(blob_ref), std::move(code),
      std::move(remove_job), std::move(remove_record), std::move(remove_life),
      std::move(remove_refs), std::move(remove_code), std::move(remove_archived)});
  return absl::OkStatus();
}

absl::Status JobRows::Take(const TurnFacts& facts) {
  for (const FinishedJob& job : facts.finished) {
    RETURN_IF_ERROR(WriteFinished(job, facts.lived_ms));
  }
  for (const uint64_t job : facts.removed_jobs) RETURN_IF_ERROR(Remove(job));
  return absl::OkStatus();
}

absl::Status JobRows::WriteFinished(const FinishedJob& job, int64_t lived_ms) {
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

absl::Status JobRows::WriteCode(const v1::JobRecord& record) {
  if (!record.spec().has_code()) return absl::OkStatus();
  const CodeName code = CodeNameOf(record.spec());
  return statements_->code.Bind(1, static_cast<int64_t>(record.id()))
      .BindText(2, code.project)
      .BindText(3, code.tree)
      .BindText(4, code.placement)
      .Run();
}

absl::Status JobRows::Remove(uint64_t job) {
  const int64_t id = static_cast<int64_t>(job);
  Statements& all = *statements_;
  for (Statement* each : {&all.remove_job, &all.remove_record, &all.remove_life, &all.remove_refs,
                          &all.remove_code, &all.remove_archived}) {
    RETURN_IF_ERROR(each->Bind(1, id).Run());
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
