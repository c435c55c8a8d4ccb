#include "coordinator/sqlite/archive/archive.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/hash/sha256.h"

namespace muster::coordinator {
absl::StatusOr<std::unique_ptr<Archive>> SqliteArchive::Open(Options options) {
  std::unique_ptr<SqliteArchive> archive(new SqliteArchive(std::move(options)));
  ASSIGN_OR_RETURN(archive->database_,
                   OpenForTurns(archive->options_.paths.Database(), *archive->options_.turns));
  return archive;
}

absl::StatusOr<uint64_t> SqliteArchive::StateBytes() {
  ASSIGN_OR_RETURN(const int64_t pages, database_->Scalar("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t unused, database_->Scalar("PRAGMA freelist_count"));
  ASSIGN_OR_RETURN(const int64_t page_size, database_->Scalar("PRAGMA page_size"));
  return static_cast<uint64_t>((pages - unused) * page_size);
}

absl::StatusOr<uint64_t> SqliteArchive::MoveOldest(uint64_t bytes) {
  ASSIGN_OR_RETURN(std::vector<ArchivedPart> parts, NextJobs());
  ASSIGN_OR_RETURN(std::optional<ArchivedPart> audit, NextAudit());
  if (audit.has_value()) parts.insert(parts.begin(), *std::move(audit));
  return Move(std::move(parts), std::min(bytes, kBytesAtOnce));
}

// A replay needs the events above the snapshot, so a job with such stays until the next one, and with it the jobs that
// ended later. A job whose record came back after it had been archived stays for good.
absl::StatusOr<std::vector<ArchivedPart>> SqliteArchive::NextJobs() {
  ASSIGN_OR_RETURN(const int64_t snapshot,
                   database_->Scalar("SELECT ifnull(max(seq), 0) FROM snapshots"));
  // A job that ends has events above it.
  if (snapshot == exhausted_at_) return std::vector<ArchivedPart>();
  exhausted_at_ = -1;
  ASSIGN_OR_RETURN(
      Statement rows,
      database_->Prepare(
          "SELECT job, lived_ms, (SELECT ifnull(max(seq), 0) FROM events WHERE events.job = "
          "job_lives.job AND events.job != 0) FROM job_lives JOIN job_records ON job_records.id = "
          "job_lives.job WHERE "
          "lived_ms >= ?1 AND NOT EXISTS (SELECT 1 FROM archive WHERE kind = 1 AND key = "
          "job_lives.job) ORDER BY lived_ms, job LIMIT ?2"));
  rows.Bind(1, archived_until_ms_).Bind(2, kJobsAtOnce);
  std::vector<ArchivedPart> parts;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row || rows.Integer(2) > snapshot) break;
    if (parts.empty()) archived_until_ms_ = rows.Integer(1);
    parts.push_back({.kind = ArchivedKind::kJob, .key = rows.Integer(0), .last = rows.Integer(2)});
  }
  if (parts.empty()) exhausted_at_ = snapshot;
  return parts;
}

// Whole parts of the audit, as they are read, and not the newest one.
absl::StatusOr<std::optional<ArchivedPart>> SqliteArchive::NextAudit() {
  ASSIGN_OR_RETURN(
      Statement next,
      database_->Prepare("SELECT ifnull(min(number), 0) FROM audit WHERE number >= ?1"));
  RETURN_IF_ERROR(next.Bind(1, audit_from_).Step().status());
  const int64_t first = next.Integer(0);
  ASSIGN_OR_RETURN(const int64_t newest,
                   database_->Scalar("SELECT ifnull(max(number), 0) FROM audit"));
  const int64_t last = LastOfAuditPart(first);
  if (first == 0 || last >= newest) return std::nullopt;
  audit_from_ = first;
  return ArchivedPart{.kind = ArchivedKind::kAudit, .key = first, .last = last};
}

absl::StatusOr<uint64_t> SqliteArchive::Move(std::vector<ArchivedPart> parts, uint64_t bytes) {
  std::vector<ArchivedPart> put;
  uint64_t put_bytes = 0;
  for (ArchivedPart& part : parts) {
    if (put_bytes >= bytes) break;
    ASSIGN_OR_RETURN(const std::optional<std::string> packed,
                     PackRows(*database_, part.kind, part.key, part.last));
    if (!packed.has_value()) {
      if (part.kind == ArchivedKind::kAudit) audit_from_ = part.last + 1;
      continue;
    }
    ASSIGN_OR_RETURN(part.sha256, options_.put(*packed));
    part.bytes = static_cast<int64_t>(packed->size());
    part.head = options_.head;
    put_bytes += packed->size();
    put.push_back(std::move(part));
  }
  if (put.empty()) return 0;
  RETURN_IF_ERROR(options_.turns->Write(*database_, [&]() -> absl::Status {
    for (const ArchivedPart& part : put) {
      ASSIGN_OR_RETURN(const bool is_unchanged, IsUnchanged(part));
      if (is_unchanged) RETURN_IF_ERROR(MoveRows(*database_, part));
    }
    return absl::OkStatus();
  }));
  return put_bytes;
}

absl::Status SqliteArchive::CheckAllHere() {
  return ForEachArchived(*database_, [this](const ArchivedPart& part) {
    const absl::Status there = options_.blobs->Size(part.sha256).status();
    return absl::IsNotFound(there) ? ArchivedElsewhere(part) : there;
  });
}

// The journal may have written the record again meanwhile, or removed the job.
absl::StatusOr<bool> SqliteArchive::IsUnchanged(const ArchivedPart& part) {
  ASSIGN_OR_RETURN(const std::optional<std::string> packed,
                   PackRows(*database_, part.kind, part.key, part.last));
  return packed.has_value() && common::Sha256Hex(*packed) == part.sha256;
}

}  // namespace muster::coordinator
