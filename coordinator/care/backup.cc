#include "coordinator/care/backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/care/backup_target.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr char kMadeWithout[] =
    "the backup is made without it; muster-coordinator check reports details";
// If a checkpoint file appears and disappears during the copy, the database is copied again.
constexpr int kTries = 3;

class Backup {
 public:
  Backup(const BackupRequest& request, const StateCare& state, BackupTarget& target,
         const OnDamage& found, const CopyProgress& progress)
      : paths_(request.data_dir),
        state_(state),
        target_(target),
        found_(found),
        progress_(progress) {}

  absl::StatusOr<BackupTotals> Run();

 private:
  // Copies checkpoint files, then the database, then the checkpoint files that arrived in between.
  // A file is removed only when no job refers to it any more.
  absl::Status CopyBlobsAndDatabase();
  absl::Status CopyBlobs();
  absl::Status CopyBlob(const TreeFile& file);
  absl::Status CopyDatabaseFile();
  // Checkpoint files that the copied database refers to but the backup does not contain.
  std::vector<std::string> Missing();
  // Runs after the database copy, so the copy has all output that the database knows of, and maybe
  // more.
  absl::Status CopyJobs(const std::string& folder);
  absl::Status CopyChanging(const std::string& path);
  absl::Status CopyOther(const TreeFile& file);
  absl::Status Copy(const TreeFile& file);
  // False: the job was submitted after the database was copied.
  bool IsOfKnownJob(const std::string& path) const;
  absl::Status Odd(const std::string& path) const;
  void Keep(const SavedFile& saved) { files_[saved.path] = saved; }
  BackupTotals Totals() const;

  const Paths paths_;
  const StateCare& state_;
  BackupTarget& target_;
  const OnDamage& found_;
  const CopyProgress& progress_;

  StateContents contents_;
  int64_t made_ms_ = 0;
  std::map<std::string, SavedFile> files_;  // by path
  std::set<std::string> damaged_;
  uint64_t copied_files_ = 0;
  uint64_t copied_bytes_ = 0;
};

absl::StatusOr<BackupTotals> Backup::Run() {
  // Before the database: deliveries for jobs that end after this copy are found in the database's
  // events and repeated.
  RETURN_IF_ERROR(CopyChanging("NOTIFY"));
  RETURN_IF_ERROR(CopyBlobsAndDatabase());
  for (const char* folder : {"logs", "metrics", "samples"}) RETURN_IF_ERROR(CopyJobs(folder));
  // A copy may end within a line, which is cut at the next start.
  RETURN_IF_ERROR(CopyChanging("audit"));
  for (const char* file : {"LIVED", "RETENTION", "FORMAT", "CLUSTER"}) {
    RETURN_IF_ERROR(CopyChanging(file));
  }
  Manifest manifest{.cluster = contents_.cluster_id,
                    .number = target_.Number(),
                    .made_ms = made_ms_,
                    .last_event = contents_.last_event};
  for (const auto& [path, file] : files_) manifest.files.push_back(file);
  RETURN_IF_ERROR(target_.Finish(manifest));
  return Totals();
}

absl::Status Backup::CopyBlobsAndDatabase() {
  std::vector<std::string> missing;
  for (int tries = 0; tries < kTries; ++tries) {
    RETURN_IF_ERROR(CopyBlobs());
    RETURN_IF_ERROR(CopyDatabaseFile());
    RETURN_IF_ERROR(CopyBlobs());
    missing = Missing();
    if (missing.empty()) return absl::OkStatus();
  }
  for (const std::string& path : missing) {
    found_({path, StrCat("is missing; ", TextOf(contents_.blobs[path.substr(path.rfind('/') + 1)])),
            kMadeWithout});
  }
  return absl::OkStatus();
}

absl::Status Backup::CopyBlobs() {
  return WalkFiles(paths_.Root(), "blobs",
                   {.file = [this](const TreeFile& file) { return CopyBlob(file); },
                    .odd = [this](const std::string& path) { return Odd(path); }});
}

absl::Status Backup::CopyBlob(const TreeFile& file) {
  const std::string name = file.path.substr(file.path.rfind('/') + 1);
  const bool is_blob =
      common::IsSha256Hex(name) && paths_.BelowRoot(paths_.BlobFile(name)) == file.path;
  if (!is_blob || files_.contains(file.path) || damaged_.contains(file.path)) {
    return absl::OkStatus();
  }
  if (const SavedFile* saved = target_.Saved(file.path); saved != nullptr) {
    Keep(*saved);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Copy(file));
  const auto kept = files_.find(file.path);
  if (kept == files_.end() || kept->second.sha256 == name) return absl::OkStatus();
  unlink(StrCat(target_.Root(), "/", kept->second.stored).c_str());
  files_.erase(kept);
  damaged_.insert(file.path);
  found_({file.path, "its bytes do not match the SHA-256 in its name", kMadeWithout});
  return absl::OkStatus();
}

absl::Status Backup::CopyDatabaseFile() {
  const std::string stored = target_.StoredName(kSavedDatabase);
  const std::string path = StrCat(target_.Root(), "/", stored);
  RETURN_IF_ERROR(common::MakeDirectories(StrCat(target_.Root(), "/", target_.Number())));
  unlink(path.c_str());
  made_ms_ = common::SystemClock().Read().wall_ms;
  ASSIGN_OR_RETURN(contents_, state_.Save(path));
  ASSIGN_OR_RETURN(const CopiedFile copied, HashFile({target_.Root(), stored}, progress_));
  if (!files_.contains(kSavedDatabase)) ++copied_files_;
  Keep({kSavedDatabase, stored, copied.size, copied.sha256, copied.modified_ns});
  copied_bytes_ += copied.size;
  if (target_.Cluster().empty() || target_.Cluster() == contents_.cluster_id) {
    return absl::OkStatus();
  }
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(target_.Root(), " holds the backup of another data directory"),
                      .why = StrCat("that one belongs to cluster ", target_.Cluster(), ", ",
                                    paths_.Root(), " is ", contents_.cluster_id),
                      .fix = "name another directory"});
}

std::vector<std::string> Backup::Missing() {
  std::vector<std::string> missing;
  for (const auto& [sha256, use] : contents_.blobs) {
    const std::string path = paths_.BelowRoot(paths_.BlobFile(sha256));
    if (files_.contains(path) || damaged_.contains(path)) continue;
    // Lost in the data directory, but an earlier backup has it: the same name means the same bytes.
    if (const SavedFile* saved = target_.Saved(path); saved != nullptr) {
      Keep(*saved);
    } else {
      missing.push_back(path);
    }
  }
  return missing;
}

absl::Status Backup::CopyJobs(const std::string& folder) {
  return WalkFiles(paths_.Root(), folder,
                   {.file =
                        [this](const TreeFile& file) {
                          return IsOfKnownJob(file.path) ? CopyOther(file) : absl::OkStatus();
                        },
                    .odd = [this](const std::string& path) { return Odd(path); }});
}

absl::Status Backup::CopyChanging(const std::string& path) {
  return WalkFiles(paths_.Root(), path,
                   {.file = [this](const TreeFile& file) { return Copy(file); },
                    .odd = [this](const std::string& odd) { return Odd(odd); }});
}

absl::Status Backup::CopyOther(const TreeFile& file) {
  if (target_.IsUnchanged(file.path, file.size, file.modified_ns)) {
    Keep(*target_.Saved(file.path));
    return absl::OkStatus();
  }
  return Copy(file);
}

absl::Status Backup::Copy(const TreeFile& file) {
  if (!IsSavedName(file.path)) {
    found_({file.path, "is not one of Muster's files and is not copied",
            "move it out of the data directory"});
    return absl::OkStatus();
  }
  const std::string stored = target_.StoredName(file.path);
  const absl::StatusOr<CopiedFile> copied =
      CopyFile({paths_.Root(), file.path}, {target_.Root(), stored}, file.size, progress_);
  // It was removed meanwhile, together with its job.
  if (absl::IsNotFound(copied.status())) return absl::OkStatus();
  if (absl::IsDataLoss(copied.status())) {
    found_({file.path, std::string(copied.status().message()), kMadeWithout});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(copied.status());
  Keep({file.path, stored, copied->size, copied->sha256, copied->modified_ns});
  ++copied_files_;
  copied_bytes_ += copied->size;
  return absl::OkStatus();
}

bool Backup::IsOfKnownJob(const std::string& path) const {
  const std::vector<absl::string_view> names = absl::StrSplit(path, '/');
  uint64_t job = 0;
  return names.size() > 2 && absl::SimpleAtoi(names[1], &job) && job < contents_.next_job;
}

absl::Status Backup::Odd(const std::string& path) const {
  if (path.find('/') != std::string::npos) {
    found_(
        {path, "is a link or a special file, and is not copied", "remove it; it is not Muster's"});
    return absl::OkStatus();
  }
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(paths_.Root(), "/", path,
                                     " is a symbolic link, which a backup does not follow"),
                      .fix = "mount the other disk there (mount --bind) in place of the link"});
}

BackupTotals Backup::Totals() const {
  BackupTotals totals{.number = target_.Number(),
                      .last_event = contents_.last_event,
                      .live_jobs = contents_.live_jobs,
                      .finished_jobs = contents_.finished_jobs,
                      .files = files_.size(),
                      .copied_files = copied_files_,
                      .copied_bytes = copied_bytes_};
  for (const auto& [path, file] : files_) totals.bytes += file.size;
  return totals;
}

// A directory that has lost its database must not replace the backup that could restore it.
absl::Status CheckSource(const BackupRequest& request, const StateCare& state) {
  RETURN_IF_ERROR(state.RefuseLost());
  if (!state.IsEmpty()) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(request.data_dir, " is not a coordinator's data directory"),
                      .why = StrCat(state.Name(), " is missing, empty or cannot be read"),
                      .fix = "name the coordinator's --data-dir"});
}

}  // namespace

absl::StatusOr<BackupTotals> MakeBackup(const BackupRequest& request, const StateCare& state,
                                        const OnDamage& found, const CopyProgress& progress) {
  RETURN_IF_ERROR(CheckSource(request, state));
  ASSIGN_OR_RETURN(const std::unique_ptr<BackupTarget> target,
                   BackupTarget::Open(request.to, request.data_dir));
  absl::StatusOr<BackupTotals> made = Backup(request, state, *target, found, progress).Run();
  if (absl::IsResourceExhausted(made.status()) && common::CodeOf(made.status()).empty()) {
    return MakeProblem(absl::StatusCode::kResourceExhausted,
                       {.code = "JC1605",
                        .what = StrCat("the disk of ", request.to, " is full"),
                        .why = std::string(made.status().message()),
                        .fix = "free some space there and run the backup again; the last whole "
                               "backup in it is untouched"});
  }
  return made;
}

}  // namespace muster::coordinator
