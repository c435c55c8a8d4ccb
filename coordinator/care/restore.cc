#include "coordinator/care/restore.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/private_directory.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/care/backup_target.h"
#include "coordinator/care/kept_apart.h"
#include "coordinator/care/manifest.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr char kStage[] = "restoring";
// More than the jobs that were submitted, and the attempts that one job began, since the backup.
// The gaps grow with the backup's age, so that two restores of one backup do not collide either.
constexpr uint64_t kJobGap = 100'000;
constexpr uint64_t kAttemptGap = 1'000;
constexpr int64_t kMsPerSecond = 1'000;
constexpr int64_t kMsPerMinute = 60'000;
constexpr int64_t kAgeMsMax = int64_t{100} * 365 * 86'400'000;

absl::StatusOr<Manifest> ReadBackup(const std::string& directory) {
  absl::StatusOr<Manifest> manifest = ReadManifest(directory);
  if (!absl::IsNotFound(manifest.status())) return manifest;
  return MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1607",
       .what = StrCat(directory, " holds no whole backup"),
       .why = common::Exists(StrCat(directory, "/UNFINISHED"))
                  ? "its first backup was interrupted before its MANIFEST was written"
                  : "it has no MANIFEST",
       .fix = "name the --to directory of a backup that was completed"});
}

absl::Status RefuseUsed(const std::string& data_dir) {
  const auto names = common::ListDirectory(data_dir);
  RETURN_IF_ERROR(names.status());
  if (names->empty() || *names == std::vector<std::string>{"LOCK"}) return absl::OkStatus();
  return MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1608",
       .what = StrCat("cannot restore into ", data_dir, ": it is not empty"),
       .why = common::Exists(StrCat(data_dir, "/", kStage))
                  ? "an earlier restore into it was interrupted; the backup itself is unaffected"
                  : StrCat("it holds ", names->front()),
       .fix = "move it away, or name an empty --data-dir"});
}

// A backup contains nothing else, whatever its MANIFEST lists.
bool IsKnown(const std::string& path) {
  for (const char* folder : {"audit/", "blobs/", "logs/", "metrics/", "samples/"}) {
    if (path.rfind(folder, 0) == 0) return true;
  }
  return path == "LIVED" || path == "RETENTION" || path == "FORMAT" || path == "NOTIFY" ||
         path == "CLUSTER";
}

Advance AdvanceFor(const Manifest& manifest, int64_t wall_ms) {
  const int64_t age_ms = std::clamp<int64_t>(wall_ms - manifest.made_ms, 0, kAgeMsMax);
  return {.epoch_at_least = static_cast<uint64_t>(std::max<int64_t>(wall_ms, 0)),
          .jobs = kJobGap + static_cast<uint64_t>(age_ms / kMsPerSecond),
          .attempts = static_cast<uint32_t>(kAttemptGap + age_ms / kMsPerMinute)};
}

class Restore {
 public:
  Restore(const RestoreRequest& request, const StateCare& state, const Manifest& manifest,
          const OnDamage& found, const CopyProgress& progress)
      : request_(request), state_(state), manifest_(manifest), found_(found), progress_(progress) {}

  absl::StatusOr<RestoreTotals> Run() {
    RETURN_IF_ERROR(CopyDatabase());
    for (const SavedFile& file : manifest_.files) {
      if (file.path != kSavedDatabase) RETURN_IF_ERROR(CopyOther(file));
    }
    RETURN_IF_ERROR(LeaveTheOthers(Stage(), request_.data_dir, found_));
    ASSIGN_OR_RETURN(const StateContents contents,
                     state_.Load(Stage(), AdvanceFor(manifest_, request_.wall_ms)));
    totals_.live_jobs = contents.live_jobs;
    totals_.finished_jobs = contents.finished_jobs;
    totals_.next_job = contents.next_job;
    RETURN_IF_ERROR(PutStateIntoPlace());
    totals_.made_ms = manifest_.made_ms;
    totals_.last_event = manifest_.last_event;
    totals_.newer_was_interrupted = common::Exists(StrCat(request_.from, "/UNFINISHED"));
    return totals_;
  }

 private:
  std::string Stage() const { return StrCat(request_.data_dir, "/", kStage); }

  // Into a separate directory: it is moved into place once everything else is there.
  absl::Status CopyDatabase() {
    for (const SavedFile& file : manifest_.files) {
      if (file.path != kSavedDatabase) continue;
      const std::string fault = Copy(file, StrCat(kStage, "/", state_.Name()));
      RETURN_IF_ERROR(failure_);
      return fault.empty() ? absl::OkStatus() : LostDatabase(fault);
    }
    return LostDatabase("MANIFEST does not name it");
  }

  absl::Status LostDatabase(const std::string& why) const {
    return MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1607",
         .what = StrCat("the database in the backup ", request_.from, " cannot be used"),
         .why = why,
         .fix = "use another backup"});
  }

  absl::Status CopyOther(const SavedFile& file) {
    const std::string fault =
        IsKnown(file.path) ? Copy(file, file.path) : "is not a file of a data directory";
    if (!fault.empty()) found_({file.path, fault, "take it from another backup"});
    return failure_;
  }

  // Returns what is wrong with the file in the backup; the new directory then has no part of it.
  // Empty: nothing, or the new directory could not be written (`failure_`).
  std::string Copy(const SavedFile& file, const std::string& path) {
    const Place from{request_.from, file.stored}, to{request_.data_dir, path};
    const auto readable = OpenBelow(from.root, from.path, O_RDONLY);
    if (!readable.ok()) return std::string(readable.status().message());
    const auto copied = CopyFile(from, to, file.size, progress_);
    if (absl::IsDataLoss(copied.status())) return std::string(copied.status().message());
    failure_ = copied.status();
    if (!copied.ok()) return "";
    if (copied->size != file.size || copied->sha256 != file.sha256) {
      unlink(StrCat(to.root, "/", to.path).c_str());
      return StrCat("is damaged in the backup (", file.stored,
                    "): it does not match its SHA-256 in MANIFEST");
    }
    ++totals_.files;
    totals_.bytes += file.size;
    return "";
  }

  absl::Status PutStateIntoPlace() const {
    RETURN_IF_ERROR(SyncFileSystem(request_.data_dir));
    RETURN_IF_ERROR(state_.Adopt(Stage()));
    RETURN_IF_ERROR(common::RemoveTree(Stage()));
    return common::SyncDirectory(request_.data_dir);
  }

  const RestoreRequest& request_;
  const StateCare& state_;
  const Manifest& manifest_;
  const OnDamage& found_;
  const CopyProgress& progress_;
  RestoreTotals totals_;
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<RestoreTotals> RestoreBackup(const RestoreRequest& request, const StateCare& state,
                                            const OnDamage& found, const CopyProgress& progress) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadBackup(request.from));
  RETURN_IF_ERROR(common::MakePrivateDirectory(request.data_dir));
  RETURN_IF_ERROR(RefuseUsed(request.data_dir));
  ASSIGN_OR_RETURN(const common::UniqueFd lock,
                   LockDataDirectory(Paths(request.data_dir).Lock(), std::chrono::milliseconds(0)));
  absl::StatusOr<RestoreTotals> restored = Restore(request, state, manifest, found, progress).Run();
  if (absl::IsResourceExhausted(restored.status())) {
    return MakeProblem(
        absl::StatusCode::kResourceExhausted,
        {.code = "JC1605",
         .what = StrCat("the disk of ", request.data_dir, " is full"),
         .why = common::ProblemOf(restored.status()).what,
         .fix = StrCat("free some space, remove ", request.data_dir, " and restore again")});
  }
  return restored;
}

}  // namespace muster::coordinator
