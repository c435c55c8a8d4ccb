#include "coordinator/care/check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/local/audit_files.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

absl::Status NotADataDirectory(const Paths& paths, const std::string& why) {
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(paths.Root(), " is not a coordinator's data directory"),
                      .why = why,
                      .fix = "name the coordinator's --data-dir"});
}

// A file that root creates there cannot be opened by the coordinator.
absl::Status RefuseUnusable(const Paths& paths, const StateCare& state) {
  struct stat info {};
  if (stat(paths.Root().c_str(), &info) != 0) {
    return NotADataDirectory(paths,
                             std::string(common::ErrnoStatus("it cannot be read").message()));
  }
  if (!S_ISDIR(info.st_mode)) return NotADataDirectory(paths, "it is not a directory");
  // Taking the lock would create LOCK, which must not happen where no coordinator has run.
  if (!common::Exists(paths.Lock()) && !state.Exists()) {
    return NotADataDirectory(paths, StrCat("it has neither LOCK nor ", state.Name()));
  }
  if (info.st_uid == geteuid()) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(paths.Root(), " belongs to another user (uid ", info.st_uid,
                                     ", this is ", geteuid(), ")"),
                      .fix = "run the command as that user (sudo -u)"});
}

absl::Status CheckState(const Paths& paths, const StateCare& state, bool quick,
                        const OnDamage& found, CheckTotals* totals) {
  if (const absl::Status lost = state.RefuseLost(); !lost.ok()) {
    found(DamageOf(state.Name(), lost));
    return absl::OkStatus();
  }
  if (!state.Exists()) return NotADataDirectory(paths, StrCat("it has no ", state.Name()));
  ASSIGN_OR_RETURN(StateCare::Checked checked, state.Check(quick, found));
  totals->state = std::move(checked.contents);
  totals->can_mend_state = checked.can_mend;
  return absl::OkStatus();
}

Damage DamageOf(const SegmentFinding& segment) {
  if (segment.is_unreadable) {
    return {
        segment.path, segment.what,
        "look at the disk, and at the owner and the kind of the file. Its job waits with the data "
        "that belongs there; move the file away to continue without its content"};
  }
  return {segment.path,
          StrCat(segment.bytes, " bytes at offset ", segment.offset, ": ", segment.what),
          "muster-coordinator repair marks them as a gap; what follows is served either way"};
}

}  // namespace

absl::StatusOr<common::UniqueFd> LockForCare(const Paths& paths, const StateCare& state) {
  RETURN_IF_ERROR(RefuseUnusable(paths, state));
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

absl::Status CheckData(const Paths& paths, const StateCare& state, bool quick,
                       const OnDamage& found, CheckTotals* totals) {
  const OnDamage counted = [&](const Damage& finding) {
    ++totals->findings;
    found(finding);
  };
  RETURN_IF_ERROR(CheckState(paths, state, quick, counted, totals));
  const BlobUses none;
  const BlobUses* const uses = totals->state.has_value() ? &totals->state->blobs : &none;
  RETURN_IF_ERROR(CheckBlobs(paths, *uses, quick, counted, &totals->blobs));
  RETURN_IF_ERROR(CheckSegments(
      paths, [&](const SegmentFinding& segment) { counted(DamageOf(segment)); },
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

absl::Status RepairData(const Paths& paths, const StateCare& state, const CheckTotals& totals,
                        int64_t wall_ms, const Changed& changed) {
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
  if (totals.state.has_value() && totals.can_mend_state) {
    ASSIGN_OR_RETURN(const Damage mended, state.Mend(*totals.state));
    changed(mended.path, mended.what);
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
