#include "coordinator/sqlite/offline.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/sqlite/archive/archive_rows.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/replay.h"
#include "coordinator/sqlite/schema.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(path, Database::Mode::kReadOnly));
  RETURN_IF_ERROR(database->Execute("PRAGMA wal_autocheckpoint=0; PRAGMA mmap_size=0"));
  return database;
}

// Timers do not matter here: no clock.
ReplayCallbacks SinkInto(ClusterState& state) {
  return {
      .snapshot =
          [&state](const v1::Snapshot& snapshot) { return ReplaySnapshot(state, snapshot, Now{}); },
      .event = [&state](const v1::Event& event) { return ReplayEvent(state, event, Now{}); }};
}

void AddUses(const v1::JobRecord& record, BlobUses& uses) {
  ForEachSaved(record, [&](const v1::Checkpoint& checkpoint) {
    for (const v1::CheckpointFile& file : checkpoint.files()) {
      uses.insert({file.sha256(), {.size = file.size(), .job = record.id()}});
    }
  });
}

// Older coordinators have no such table.
absl::Status ReadCode(Database& database, StateContents* contents) {
  ASSIGN_OR_RETURN(const bool has_code, database.HasTable("code_objects"));
  if (!has_code) return absl::OkStatus();
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT sha256, size, project FROM code_objects"));
  return ForRows(rows, [&](Statement& row) {
    contents->blobs.insert(
        {std::string(row.Bytes(0)),
         {.size = static_cast<uint64_t>(row.Integer(1)), .project = std::string(row.Bytes(2))}});
    return absl::OkStatus();
  });
}

// The records are in blobs, so only the names of the files that they refer to are known here.
absl::Status ReadArchive(Database& database, BlobUses& uses) {
  RETURN_IF_ERROR(ForEachArchived(database, [&](const ArchivedPart& part) {
    const bool is_job = part.kind == ArchivedKind::kJob;
    uses.insert({part.sha256,
                 {.size = static_cast<uint64_t>(part.bytes),
                  .job = is_job ? static_cast<uint64_t>(part.key) : 0,
                  .archived = is_job ? BlobUse::Archived::kJob : BlobUse::Archived::kAudit}});
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(Statement files,
                   database.Prepare("SELECT sha256, job FROM blob_refs WHERE job IN (SELECT key "
                                    "FROM archive WHERE kind = 1)"));
  return ForRows(files, [&](Statement& row) {
    uses.insert({std::string(row.Bytes(0)),
                 {.size = BlobUse::kUnknownSize, .job = static_cast<uint64_t>(row.Integer(1))}});
    return absl::OkStatus();
  });
}

// They are in the object store, not in files of the data directory.
absl::Status LeaveOutObjects(Database& database, BlobUses& uses) {
  ASSIGN_OR_RETURN(const bool has_objects, database.HasTable("objects"));
  if (!has_objects) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool has_sent, database.HasTable("sent_objects"));
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(StrCat(
                                       "SELECT sha256 FROM objects",
                                       has_sent ? " UNION SELECT sha256 FROM sent_objects" : "")));
  return ForRows(rows, [&](Statement& row) {
    uses.erase(std::string(row.Bytes(0)));
    return absl::OkStatus();
  });
}

absl::Status ReadFinished(Database& database, const std::string& path, StateContents* contents) {
  // Older coordinators have no such table.
  ASSIGN_OR_RETURN(const bool has_archive, database.HasTable(kArchiveTable));
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(StrCat("SELECT jobs.id, summary, record",
                              has_archive ? ", record IS NULL AND jobs.id IN (SELECT key FROM "
                                            "archive WHERE kind = 1)"
                                          : ", 0",
                              " FROM jobs LEFT JOIN job_records ON jobs.id = job_records.id")));
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) break;
    const int64_t id = rows.Integer(0);
    const std::string_view summary = rows.Bytes(1), bytes = rows.Bytes(2);
    const bool is_archived = rows.Integer(3) != 0;
    v1::JobSummary parsed;
    v1::JobRecord record;
    if (!ParseRow(summary, &parsed) ||
        (!is_archived && (!ParseRow(bytes, &record) || static_cast<int64_t>(record.id()) != id))) {
      return DamagedDatabase(path, StrCat("the record of job ", id, " cannot be read"));
    }
    ++contents->finished_jobs;
    AddUses(record, contents->blobs);
  }
  return has_archive ? ReadArchive(database, contents->blobs) : absl::OkStatus();
}

void ReadLive(ClusterState& state, StateContents* contents) {
  TakeFinished(state);  // their rows are in the table
  contents->next_job = state.next_job_id;
  contents->live_jobs = state.jobs.size();
  const v1::Snapshot snapshot = MakeSnapshot(state);  // puts the files back into the records
  for (const v1::JobRecord& job : snapshot.jobs()) AddUses(job, contents->blobs);
}

}  // namespace

absl::StatusOr<StateContents> ReadContents(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, OpenToRead(path));
  const auto read = [&]() -> absl::StatusOr<StateContents> {
    bool is_new = false;
    RETURN_IF_ERROR(CheckIdentity(*database, path, &is_new));
    StateContents contents;
    if (is_new) return contents;
    ASSIGN_OR_RETURN(const int64_t epoch,
                     database->Scalar("SELECT value FROM meta WHERE key = 'epoch'"));
    ASSIGN_OR_RETURN(const int64_t cluster,
                     database->Scalar("SELECT value FROM meta WHERE key = 'cluster'"));
    contents.epoch = static_cast<uint64_t>(epoch);
    contents.cluster_id = absl::StrFormat("%016x", cluster);
    ClusterState state;
    ASSIGN_OR_RETURN(contents.last_event, ReplayDatabase(*database, path, SinkInto(state)));
    RETURN_IF_ERROR(CheckReplayed(state));
    ReadLive(state, &contents);
    RETURN_IF_ERROR(ReadFinished(*database, path, &contents));
    RETURN_IF_ERROR(ReadCode(*database, &contents));
    RETURN_IF_ERROR(LeaveOutObjects(*database, contents.blobs));
    return contents;
  };
  absl::StatusOr<StateContents> contents = read();
  if (absl::IsDataLoss(contents.status()) && common::CodeOf(contents.status()).empty()) {
    return DamagedDatabase(path, std::string(contents.status().message()));
  }
  return contents;
}

absl::Status CheckPages(const std::string& path, bool quick, const OnDamage& found) {
  constexpr char kFix[] =
      "restore the data directory from a backup: nothing else mends a damaged database";
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto findings = [&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, OpenToRead(path));
    return database->Texts(quick ? "PRAGMA quick_check(20)" : "PRAGMA integrity_check(20)");
  }();
  if (absl::IsDataLoss(findings.status())) {
    found({name, std::string(findings.status().message()), kFix});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(findings.status());
  if (*findings == "ok") return absl::OkStatus();
  for (const absl::string_view line : absl::StrSplit(*findings, "; ")) {
    found({name, std::string(line), kFix});
  }
  return absl::OkStatus();
}

absl::Status CopyDatabase(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, OpenToRead(from));
  absl::StatusOr<Statement> copy = database->Prepare("VACUUM INTO ?1");
  const absl::Status copied = copy.ok() ? copy->BindText(1, to).Run() : copy.status();
  return absl::IsDataLoss(copied) ? DamagedDatabase(from, std::string(copied.message())) : copied;
}

absl::Status AdvanceNumbers(const Paths& paths, const Advance& advance) {
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                     Database::Open(paths.Database(), Database::Mode::kReadWrite));
    RETURN_IF_ERROR(database->Execute(StrCat("UPDATE meta SET value = max(value, ",
                                             advance.epoch_at_least, ") WHERE key = 'epoch'")));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Journal> journal, OpenSqliteJournal(paths));
  ClusterState state;
  RETURN_IF_ERROR(journal->Replay(SinkInto(state)));
  TakeFinished(state);
  state.next_job_id += advance.jobs;
  for (const auto& [id, job] : state.jobs) {
    state.jobs.Edit(id).set_next_attempt(job.next_attempt() + advance.attempts);
  }
  JournalRecord record;
  record.turn = 1;
  record.snapshot = std::make_shared<const v1::Snapshot>(MakeSnapshot(state));
  journal->Append(std::move(record));
  journal->Start({.durable = [](uint64_t) {},
                  .disk_full = [](bool) {},
                  .stuck = [](const absl::Status&) {},
                  .failed = [](const absl::Status&) {}});
  RETURN_IF_ERROR(journal->Stop());
  return common::WriteFileDurably(paths.HighWater(), HighWaterText(state.next_seq - 1));
}

}  // namespace muster::coordinator
