#include "coordinator/sqlite/schema.h"

#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kTables[] = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES('epoch', 0);
CREATE TABLE events(
  seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, node TEXT NOT NULL, at_ms INTEGER NOT NULL,
  event BLOB NOT NULL) STRICT;
CREATE INDEX events_by_job ON events(job) WHERE job != 0;
CREATE INDEX events_by_node ON events(node) WHERE node != '';
CREATE TABLE snapshots(
  id INTEGER PRIMARY KEY CHECK(id = 1), seq INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE TABLE jobs(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, state INTEGER NOT NULL,
  submitted_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL, idempotency_key TEXT NOT NULL,
  spec_hash INTEGER NOT NULL, summary BLOB NOT NULL) STRICT;
CREATE INDEX jobs_by_key ON jobs(owner, idempotency_key, id, spec_hash)
  WHERE idempotency_key != '';
CREATE INDEX jobs_by_owner ON jobs(owner, id);
CREATE INDEX jobs_by_finish ON jobs(finished_ms, id);
CREATE TABLE job_records(id INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE blob_refs(
  sha256 TEXT NOT NULL, job INTEGER NOT NULL, PRIMARY KEY(sha256, job)) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_job ON blob_refs(job);
CREATE TABLE removed_jobs(job INTEGER PRIMARY KEY) STRICT;
)sql";

// The coordinator's uptime when a finished job's row was written. A separate table, created if
// missing, so that data directories of coordinators that did not track uptime open unchanged, and
// such coordinators can still open ours.
constexpr char kLives[] = R"sql(
CREATE TABLE IF NOT EXISTS job_lives(job INTEGER PRIMARY KEY, lived_ms INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS job_lives_by_age ON job_lives(lived_ms, job);
)sql";

// Identities (identity_store.h). Created if missing, like the table above.
constexpr char kIdentities[] = R"sql(
CREATE TABLE IF NOT EXISTS identities(
  kind TEXT NOT NULL, key TEXT NOT NULL, subject TEXT NOT NULL, expires_ms INTEGER NOT NULL,
  revoked INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY(kind, key)) STRICT;
CREATE INDEX IF NOT EXISTS identities_by_subject ON identities(kind, subject);
CREATE INDEX IF NOT EXISTS identities_by_end ON identities(kind, expires_ms);
)sql";

// Which code objects belong to whom (code_store.h), and which code a finished job has. Created if missing, like
// the tables above.
constexpr char kCode[] = R"sql(
CREATE TABLE IF NOT EXISTS code_objects(
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL,
  used_ms INTEGER NOT NULL, UNIQUE(project, sha256)) STRICT;
CREATE INDEX IF NOT EXISTS code_objects_by_hash ON code_objects(sha256);
CREATE INDEX IF NOT EXISTS code_objects_by_use ON code_objects(used_ms, id);
CREATE TABLE IF NOT EXISTS code_placements(
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, tree TEXT NOT NULL, placement TEXT NOT NULL,
  used_ms INTEGER NOT NULL, is_whole INTEGER NOT NULL, UNIQUE(project, tree, placement)) STRICT;
CREATE INDEX IF NOT EXISTS code_placements_by_use ON code_placements(used_ms, id);
CREATE TABLE IF NOT EXISTS code_uses(
  placement INTEGER NOT NULL, object INTEGER NOT NULL, PRIMARY KEY(placement, object))
  STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS code_uses_by_object ON code_uses(object);
CREATE TABLE IF NOT EXISTS job_code(
  job INTEGER PRIMARY KEY, project TEXT NOT NULL, tree TEXT NOT NULL, placement TEXT NOT NULL)
  STRICT;
CREATE INDEX IF NOT EXISTS job_code_by_placement ON job_code(placement);
)sql";

// Who uploaded each code object. The column has a default, so older releases can read and write the
// table as before.
absl::Status AddGivers(Database& database) {
  ASSIGN_OR_RETURN(const int64_t has, database.Scalar("SELECT count(*) FROM pragma_table_info("
                                                      "'code_objects') WHERE name = 'giver'"));
  if (has == 0) {
    RETURN_IF_ERROR(
        database.Execute("ALTER TABLE code_objects ADD COLUMN giver TEXT NOT NULL DEFAULT ''"));
  }
  return database.Execute(
      "CREATE INDEX IF NOT EXISTS code_objects_by_giver ON code_objects(giver)");
}

// The jobs of a large snapshot (snapshot_rows.h). Created if missing, like the tables above.
constexpr char kSnapshotJobs[] = R"sql(
CREATE TABLE IF NOT EXISTS snapshot_jobs(id INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
)sql";

// What a coordinator that is alone keeps in files beside the database. Created if missing, like the tables above.
constexpr char kShared[] = R"sql(
CREATE TABLE IF NOT EXISTS notes(name TEXT PRIMARY KEY, text BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS audit(number INTEGER PRIMARY KEY, entry BLOB NOT NULL) STRICT;
)sql";

// What is in the archive (archive_rows.h). Created if missing, like the tables above.
constexpr char kArchive[] = R"sql(
CREATE TABLE IF NOT EXISTS archive(
  kind INTEGER NOT NULL, key INTEGER NOT NULL, last INTEGER NOT NULL, sha256 TEXT NOT NULL,
  bytes INTEGER NOT NULL, head TEXT NOT NULL, PRIMARY KEY(kind, key)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS archive_by_hash ON archive(sha256);
)sql";

// Which objects of the cluster's object store blobs are (object_names.h). Created if missing, like the tables above.
constexpr char kObjects[] = R"sql(
CREATE TABLE IF NOT EXISTS objects(
  sha256 TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,
  named_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS objects_by_age ON objects(named_ms);
CREATE TABLE IF NOT EXISTS doomed_objects(
  key TEXT PRIMARY KEY, doomed_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS doomed_objects_by_age ON doomed_objects(doomed_ms);
CREATE TABLE IF NOT EXISTS sent_objects(
  job INTEGER NOT NULL, sha256 TEXT NOT NULL, key TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,
  named_ms INTEGER NOT NULL, PRIMARY KEY(job, sha256)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sent_objects_by_hash ON sent_objects(sha256);
CREATE INDEX IF NOT EXISTS sent_objects_by_age ON sent_objects(named_ms);
CREATE TABLE IF NOT EXISTS object_uploads(
  sender TEXT NOT NULL, sha256 TEXT NOT NULL, key TEXT NOT NULL UNIQUE, upload TEXT NOT NULL,
  bytes INTEGER NOT NULL, begun_ms INTEGER NOT NULL, PRIMARY KEY(sender, sha256)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS object_uploads_by_age ON object_uploads(begun_ms);
)sql";

// Which packs of logs and metrics are in that store (pack_names.h). Created if missing, like the tables above.
constexpr char kPacks[] = R"sql(
CREATE TABLE IF NOT EXISTS packs(
  job INTEGER NOT NULL, kind INTEGER NOT NULL, attempt INTEGER NOT NULL, node TEXT NOT NULL,
  epoch INTEGER NOT NULL, life TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  first_rank INTEGER NOT NULL, last_rank INTEGER NOT NULL, bytes INTEGER NOT NULL, note BLOB NOT NULL,
  PRIMARY KEY(job, kind, attempt, node, epoch, life)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS merged_packs(
  job INTEGER NOT NULL, kind INTEGER NOT NULL, attempt INTEGER NOT NULL, node TEXT NOT NULL,
  place INTEGER NOT NULL, name TEXT NOT NULL, level INTEGER NOT NULL, bytes INTEGER NOT NULL,
  PRIMARY KEY(job, kind, attempt, node, place)) STRICT, WITHOUT ROWID;
)sql";

absl::Status CreateLaterTables(Database& database) {
  for (const char* tables :
       {kLives, kIdentities, kCode, kSnapshotJobs, kShared, kArchive, kObjects, kPacks})
    RETURN_IF_ERROR(database.Execute(tables));
  return AddGivers(database);
}

absl::Status CheckIntegrity(Database& database, const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t pages, database.Scalar("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page_size, database.Scalar("PRAGMA page_size"));
  const bool whole = pages * page_size <= kCheckedAtOnceBytes;
  for (const std::string& check :
       whole ? std::vector<std::string>{"PRAGMA quick_check(5)"}
             : std::vector<std::string>{"PRAGMA quick_check(meta)", "PRAGMA quick_check(snapshots)",
                                        "PRAGMA quick_check(removed_jobs)"}) {
    ASSIGN_OR_RETURN(const std::string finding, database.Texts(check));
    if (finding != "ok") return DamagedDatabase(path, finding);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIdentity(Database& database, const std::string& path, bool* is_new) {
  ASSIGN_OR_RETURN(const int64_t application_id, database.Scalar("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, database.Scalar("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t tables, database.Scalar("SELECT count(*) FROM sqlite_schema"));
  *is_new = application_id == 0 && version == 0 && tables == 0;
  if (*is_new) return absl::OkStatus();
  if (application_id != kApplicationId) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1603",
         .what = StrCat(path, " is a database, but not one of muster-coordinator (application id ",
                        application_id, ")"),
         .fix = "use another --data-dir"});
  }
  if (version > kSchemaVersion) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1603",
         .what = StrCat(path, " was written by a newer muster-coordinator (schema ", version,
                        ", this one knows up to ", kSchemaVersion, ")"),
         .fix = "start the newer version, or use another --data-dir"});
  }
  return absl::OkStatus();
}

absl::Status DamagedDatabase(const std::string& path, const std::string& finding) {
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what = StrCat(path, " is damaged"),
       .why = finding,
       .fix = "restore the data directory from a backup, or start with an empty --data-dir"});
}

absl::Status PrepareSchema(Database& database, const std::string& path) {
  bool is_new = false;
  absl::Status status = CheckIdentity(database, path, &is_new);
  if (status.ok() && !is_new) status = CheckIntegrity(database, path);
  if (absl::IsDataLoss(status) && common::CodeOf(status).empty()) {
    return DamagedDatabase(path, std::string(status.message()));
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(database.Execute("PRAGMA journal_mode=WAL"));
  RETURN_IF_ERROR(
      database.Execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA mmap_size=0;"
                       "PRAGMA journal_size_limit=67108864; PRAGMA trusted_schema=OFF"));
  if (!is_new) {
    RETURN_IF_ERROR(CreateLaterTables(database));
    ASSIGN_OR_RETURN(const int64_t version, database.Scalar("PRAGMA user_version"));
    if (version >= kSchemaWithoutPeople) return absl::OkStatus();
    return database.Execute(StrCat("PRAGMA user_version=", kSchemaWithoutPeople));
  }
  RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  RETURN_IF_ERROR(database.Execute(kTables));
  RETURN_IF_ERROR(CreateLaterTables(database));
  RETURN_IF_ERROR(database.Execute(StrCat("PRAGMA application_id=", kApplicationId,
                                          "; PRAGMA user_version=", kSchemaWithoutPeople)));
  return database.Execute("COMMIT");
}

absl::Status MarkNewest(Database& database) {
  return database.Execute(StrCat("PRAGMA user_version=", kSchemaVersion));
}

absl::StatusOr<int64_t> NewestLife(Database& database) {
  ASSIGN_OR_RETURN(const int64_t of_jobs,
                   database.Scalar("SELECT ifnull(max(lived_ms), 0) FROM job_lives"));
  ASSIGN_OR_RETURN(Statement last,
                   database.Prepare("SELECT event FROM events ORDER BY seq DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool row, last.Step());
  v1::Event event;
  // The replay reports an event that cannot be read.
  if (!row || !ParseRow(last.Bytes(0), &event)) return of_jobs;
  return std::max(of_jobs, event.lived_ms());
}

std::string BeginningOfLives(int64_t lived_ms) {
  return StrCat("INSERT OR IGNORE INTO job_lives SELECT id, ", lived_ms,
                " FROM jobs;"
                "DELETE FROM job_lives WHERE job NOT IN (SELECT id FROM jobs)");
}

}  // namespace muster::coordinator
