#include "coordinator/sqlite/snapshot_rows.h"

#include <algorithm>
#include <string>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/database/parse_row.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Up to this size it is one row, which older coordinators read.
constexpr size_t kOneRowBytesMax = 32 << 20;
// 0.2.0, which reads only format 1, would find no jobs.
constexpr uint32_t kFormatOfRows = 2;

// `meta` has the number of job rows that belong to the snapshot, so that a lost row is detected.
absl::Status WriteHead(Database& database, const v1::Snapshot& head, int jobs) {
  ASSIGN_OR_RETURN(Statement put,
                   database.Prepare("INSERT OR REPLACE INTO snapshots VALUES(1, ?1, ?2)"));
  const std::string bytes = head.SerializeAsString();
  RETURN_IF_ERROR(put.Bind(1, static_cast<int64_t>(head.seq())).BindBlob(2, bytes).Run());
  ASSIGN_OR_RETURN(Statement count,
                   database.Prepare("INSERT OR REPLACE INTO meta VALUES('snapshot_jobs', ?1)"));
  return count.Bind(1, jobs).Run();
}

absl::Status ReadJobs(Database& database, v1::Snapshot& snapshot) {
  ASSIGN_OR_RETURN(const int64_t wanted,
                   database.Scalar("SELECT value FROM meta WHERE key = 'snapshot_jobs'"));
  if (wanted == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT id, record FROM snapshot_jobs ORDER BY id"));
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) break;
    if (!ParseRow(rows.Bytes(1), snapshot.add_jobs())) {
      return absl::DataLossError(StrCat("job ", rows.Integer(0), " of the snapshot at event ",
                                        snapshot.seq(), " cannot be read"));
    }
  }
  if (snapshot.jobs_size() == wanted) return absl::OkStatus();
  return absl::DataLossError(StrCat("the snapshot at event ", snapshot.seq(), " has ",
                                    snapshot.jobs_size(), " jobs, and should have ", wanted));
}

}  // namespace

absl::Status WriteSnapshotRows(Database& database, const v1::Snapshot& snapshot) {
  RETURN_IF_ERROR(database.Execute("DELETE FROM snapshot_jobs"));
  if (snapshot.ByteSizeLong() <= kOneRowBytesMax) return WriteHead(database, snapshot, 0);
  v1::Snapshot head;
  head.set_format(std::max(snapshot.format(), kFormatOfRows));
  head.set_seq(snapshot.seq());
  head.set_next_job_id(snapshot.next_job_id());
  *head.mutable_nodes() = snapshot.nodes();
  if (snapshot.has_projects()) *head.mutable_projects() = snapshot.projects();
  if (snapshot.has_usage()) *head.mutable_usage() = snapshot.usage();
  RETURN_IF_ERROR(WriteHead(database, head, snapshot.jobs_size()));
  ASSIGN_OR_RETURN(Statement put, database.Prepare("INSERT INTO snapshot_jobs VALUES(?1, ?2)"));
  std::string bytes;
  for (const v1::JobRecord& job : snapshot.jobs()) {
    job.SerializeToString(&bytes);
    RETURN_IF_ERROR(put.Bind(1, static_cast<int64_t>(job.id())).BindBlob(2, bytes).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::Snapshot>> ReadSnapshotRows(Database& database) {
  ASSIGN_OR_RETURN(Statement newest, database.Prepare("SELECT seq, data FROM snapshots"));
  ASSIGN_OR_RETURN(const bool has_snapshot, newest.Step());
  if (!has_snapshot) return std::nullopt;
  const int64_t seq = newest.Integer(0);
  v1::Snapshot snapshot;
  if (!ParseRow(newest.Bytes(1), &snapshot))
    return absl::DataLossError(StrCat("the snapshot at event ", seq, " cannot be read"));
  if (snapshot.seq() != static_cast<uint64_t>(seq))
    return absl::DataLossError(
        StrCat("the snapshot at event ", seq, " is one of event ", snapshot.seq()));
  RETURN_IF_ERROR(ReadJobs(database, snapshot));
  return snapshot;
}

}  // namespace muster::coordinator
