#include "coordinator/care/check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/audit/audit_files.h"
#include "coordinator/data_lock.h"
#include "coordinator/sqlite/lost_database.h"
#include "coordinator/sqlite/replay.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

Finding FindingOf(const std::string& path, const absl::Status& status) {
  const common::Problem problem = common::ProblemOf(status);
  return {path, problem.why.empty() ? problem.what : StrCat(problem.what, ": ", problem.why),
          problem.fix};
}

absl::Status NotADataDirectory(const Paths& paths, const std::string& why) {
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(paths.Root(), " is not a coordinator's data directory"),
                      .why = why,
                      .fix = "name the coordinator's --data-dir"});
}

// A file that root creates there cannot be opened by the coordinator.
absl::Status RefuseUnusable(const Paths& paths) {
  struct stat info {};
  if (stat(paths.Root().c_str(), &info) != 0) {
    return NotADataDirectory(paths,
                             std::string(common::ErrnoStatus("it cannot be read").message()));
  }
  if (!S_ISDIR(info.st_mode)) return NotADataDirectory(paths, "it is not a directory");
  // Taking the lock would create LOCK, which must not happen where no coordinator has run.
  if (!common::Exists(paths.Lock()) && !common::Exists(paths.Database())) {
    return NotADataDirectory(paths, "it has neither LOCK nor muster.db");
  }
  if (info.st_uid == geteuid()) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(paths.Root(), " belongs to another user (uid ", info.st_uid,
                                     ", this is ", geteuid(), ")"),
                      .fix = "run the command as that user (sudo -u)"});
}

void CheckHighWaterFile(const Paths& paths, uint64_t last_event, const Found& found,
                        CheckTotals* totals) {
  const absl::StatusOr<std::optional<uint64_t>> read = ReadHighWater(paths);
  if (!read.ok()) {
    totals->high_water_is_behind = true;
    return found(FindingOf("HIGHWATER", read.status()));
  }
  const absl::Status ahead = CheckHighWater(paths, last_event);
  if (!ahead.ok()) return found(FindingOf("HIGHWATER", ahead));
  const std::optional<uint64_t> mark = *read;
  // A killed coordinator leaves it a little behind; it then detects less, but is not damaged.
  totals->high_water_is_behind = mark.value_or(0) < last_event;
  if (mark.has_value() || last_event == 0) return;
  found({"HIGHWATER", "is missing or empty; a truncated database would go unnoticed",
         "muster-coordinator repair rewrites it"});
}

absl::Status CheckDatabase(const Paths& paths, bool quick, const Found& found,
                           CheckTotals* totals) {
  if (const absl::Status lost = RefuseLostDatabase(paths); !lost.ok()) {
    found(FindingOf("muster.db", lost));
    return absl::OkStatus();
  }
  if (!common::Exists(paths.Database())) return NotADataDirectory(paths, "it has no muster.db");
  const uint64_t before = totals->findings;
  RETURN_IF_ERROR(CheckPages(paths.Database(), quick, found));
  if (totals->findings != before) return absl::OkStatus();
  absl::StatusOr<DatabaseContents> contents = ReadContents(paths.Database());
  if (!contents.ok()) {
    if (common::CodeOf(contents.status()).empty()) return contents.status();
    found(FindingOf("muster.db", contents.status()));
    return absl::OkStatus();
  }
  totals->contents = *std::move(contents);
  totals->has_contents = true;
  CheckHighWaterFile(paths, totals->contents.last_event, found, totals);
  return absl::OkStatus();
}

Finding FindingOf(const SegmentFinding& segment) {
  if (segment.is_unreadable) {
    return {
        segment.path, segment.what,
        "look at the disk, and at the owner and the kind of what lies there. Its job waits with "
        "what belongs there; move it away to go on without what is in it"};
  }
  return {segment.path,
          StrCat(segment.bytes, " bytes at offset ", segment.offset, ": ", segment.what),
          "muster-coordinator repair marks them as a gap; what follows is served either way"};
}

}  // namespace

absl::StatusOr<common::UniqueFd> LockForCare(const Paths& paths) {
  RETURN_IF_ERROR(RefuseUnusable(paths));
  absl::StatusOr<common::UniqueFd> lock =
      LockDataDirectory(paths.Lock(), std::chrono::milliseconds(0));
  if (common::CodeOf(lock.status()) != "JC1604") return lock;
  const int holder = LockHolder(paths.Lock());
  return MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1604",
       .what = StrCat("a muster-coordinator",
                      holder > 0 ? StrCat(" (pid ", holder, ")") : std::string(), " uses ",
                      paths.Root()),
       .fix = "stop it first: check and repair need a stopped coordinator (backup does not)"});
}

absl::Status CheckData(const Paths& paths, bool quick, const Found& found, CheckTotals* totals) {
  const Found counted = [&](const Finding& finding) {
    ++totals->findings;
    found(finding);
  };
  RETURN_IF_ERROR(CheckDatabase(paths, quick, counted, totals));
  RETURN_IF_ERROR(CheckBlobs(paths, totals->contents.blobs, quick, counted, &totals->blobs));
  RETURN_IF_ERROR(CheckSegments(
      paths, [&](const SegmentFinding& segment) { counted(FindingOf(segment)); },
      &totals->segments));
  RETURN_IF_ERROR(CheckAudit(
      paths.AuditRoot(),
      [&](const std::string& finding) {
        counted({"audit", finding,
                 "compare with a backup, and with jobctl audit --verify --head of a hash that was "
                 "kept elsewhere"});
      },
      &totals->audit_entries, &totals->audit_first));
  return CheckSamples(paths, &totals->samples);
}

absl::Status RepairData(const Paths& paths, const CheckTotals& totals, int64_t wall_ms,
                        const Changed& changed) {
  SegmentTotals ignored;
  RETURN_IF_ERROR(RepairSegments(
      paths,
      [&](const SegmentFinding& segment) {
        changed(segment.path, segment.is_unreadable ? segment.what
                                                    : StrCat(segment.bytes, " bytes at offset ",
                                                             segment.offset, ": ", segment.what));
      },
      &ignored));
  for (const std::string& sha256 : totals.blobs.damaged) {
    RETURN_IF_ERROR(SetBlobAside(paths, sha256));
    changed(paths.BelowRoot(paths.BlobFile(sha256)), "moved to damaged/");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> stale, RemoveStaleUploads(paths, wall_ms));
  for (const std::string& path : stale) changed(path, "unfinished for over a day, removed");
  if (totals.has_contents && totals.high_water_is_behind) {
    RETURN_IF_ERROR(
        common::WriteFileDurably(paths.HighWater(), HighWaterText(totals.contents.last_event)));
    changed("HIGHWATER", StrCat("rewritten: event ", totals.contents.last_event));
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
