#include "coordinator/care/backup_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/files/private_directory.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/care/copy_file.h"

namespace muster::coordinator {
namespace {

namespace fs = std::filesystem;

using common::MakeProblem;
using common::StrCat;

constexpr char kManifest[] = "MANIFEST";
constexpr char kUnfinished[] = "UNFINISHED";
constexpr char kLock[] = "LOCK";
constexpr char kBlobs[] = "blobs";
constexpr size_t kManifestBytesMax = size_t{4} << 30;
constexpr int64_t kNsPerMs = 1'000'000;
// The coarsest timestamp resolution of a file system (FAT: 2 s).
constexpr int64_t kClockTickNs = 2'000 * kNsPerMs;

bool IsNumber(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

// The path with symbolic links resolved; parts of it need not exist yet.
std::string Resolved(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : (resolved / "").string();
}

absl::Status RefusePlace(const std::string& directory, const std::string& data_dir) {
  const std::string to = Resolved(directory), from = Resolved(data_dir);
  if (to.rfind(from, 0) != 0 && from.rfind(to, 0) != 0) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat("cannot make a backup of ", data_dir, " in ", directory),
                      .why = "one of the two lies inside the other",
                      .fix = "name a directory elsewhere, preferably on another disk"});
}

absl::Status RefuseForeign(const std::string& directory) {
  auto names = common::ListDirectory(directory);
  RETURN_IF_ERROR(names.status());
  const std::set<std::string> there(names->begin(), names->end());
  const bool is_ours = there.contains(kManifest) || there.contains(kUnfinished);
  const bool is_empty = there.empty() || there == std::set<std::string>{kLock};
  if (is_ours || is_empty) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1608",
                      .what = StrCat(directory, " is not empty and holds no backup"),
                      .why = StrCat("it has ", there.size(), " entries, such as ", *there.begin()),
                      .fix = "name an empty directory, or one that already holds a backup"});
}

}  // namespace

absl::StatusOr<Manifest> ReadManifest(const std::string& directory) {
  const std::string path = StrCat(directory, "/", kManifest);
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(path, kManifestBytesMax));
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (manifest.ok()) return manifest;
  return MakeProblem(manifest.status().code(),
                     {.code = "JC1607",
                      .what = StrCat(path, " cannot be used"),
                      .why = std::string(manifest.status().message()),
                      .fix = absl::IsDataLoss(manifest.status())
                                 ? "use another backup"
                                 : "use the version of muster-coordinator that wrote it"});
}

absl::StatusOr<std::unique_ptr<BackupTarget>> BackupTarget::Open(const std::string& directory,
                                                                 const std::string& data_dir) {
  RETURN_IF_ERROR(RefusePlace(directory, data_dir));
  RETURN_IF_ERROR(common::MakePrivateDirectory(directory));
  RETURN_IF_ERROR(RefuseForeign(directory));
  std::unique_ptr<BackupTarget> target(new BackupTarget(directory));
  RETURN_IF_ERROR(target->Lock());
  RETURN_IF_ERROR(target->ReadPrevious());
  RETURN_IF_ERROR(common::WriteFileDurably(
      target->At(kUnfinished),
      "A backup is in progress here, or was interrupted. Without a MANIFEST there is none yet.\n"));
  target->Prune(target->previous_);  // leftovers of an interrupted backup
  return target;
}

BackupTarget::~BackupTarget() {
  if (!is_finished_ && lock_.valid()) common::RemoveTree(At(StrCat(number_))).IgnoreError();
}

absl::Status BackupTarget::Lock() {
  absl::StatusOr<common::UniqueFd> lock = common::LockFile(At(kLock));
  if (absl::IsFailedPrecondition(lock.status())) {
    return MakeProblem(absl::StatusCode::kFailedPrecondition,
                       {.code = "JC1604",
                        .what = StrCat("another backup is being made in ", root_),
                        .fix = "wait until it is done, or name another directory"});
  }
  RETURN_IF_ERROR(lock.status());
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status BackupTarget::ReadPrevious() {
  absl::StatusOr<Manifest> previous = ReadManifest(root_);
  if (absl::IsNotFound(previous.status())) return absl::OkStatus();
  RETURN_IF_ERROR(previous.status());
  previous_ = *std::move(previous);
  number_ = previous_.number + 1;
  for (const SavedFile& file : previous_.files) saved_[file.path] = &file;
  return absl::OkStatus();
}

std::string BackupTarget::StoredName(const std::string& path) const {
  return path.rfind(StrCat(kBlobs, "/"), 0) == 0 ? path : StrCat(number_, "/", path);
}

const SavedFile* BackupTarget::Saved(const std::string& path) const {
  const auto found = saved_.find(path);
  if (found == saved_.end()) return nullptr;
  struct stat info {};
  const bool is_there = lstat(At(found->second->stored).c_str(), &info) == 0 &&
                        S_ISREG(info.st_mode) &&
                        static_cast<uint64_t>(info.st_size) == found->second->size;
  return is_there ? found->second : nullptr;
}

bool BackupTarget::IsUnchanged(const std::string& path, uint64_t size, int64_t modified_ns) const {
  const SavedFile* saved = Saved(path);
  // A file may change twice within one tick of its timestamp. That is ruled out if its last change
  // was more than a tick before the last backup.
  return saved != nullptr && saved->size == size && saved->modified_ns == modified_ns &&
         modified_ns < previous_.made_ms * kNsPerMs - kClockTickNs;
}

absl::Status BackupTarget::Finish(const Manifest& manifest) {
  RETURN_IF_ERROR(SyncFileSystem(root_));
  RETURN_IF_ERROR(common::WriteFileDurably(At(kManifest), ManifestText(manifest)));
  is_finished_ = true;
  unlink(At(kUnfinished).c_str());
  Prune(manifest);
  return absl::OkStatus();
}

void BackupTarget::Prune(const Manifest& manifest) const {
  std::set<std::string> kept;
  for (const SavedFile& file : manifest.files) kept.insert(file.stored);
  const auto names = common::ListDirectory(root_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!IsNumber(name) && (name != kBlobs || !is_finished_)) continue;
    bool is_used = false;
    WalkFiles(root_, name,
              {.file =
                   [&](const TreeFile& file) {
                     if (kept.contains(file.path)) {
                       is_used = true;
                     } else {
                       unlink(At(file.path).c_str());
                     }
                     return absl::OkStatus();
                   },
               .odd = [](const std::string&) { return absl::OkStatus(); }})
        .IgnoreError();
    if (!is_used && name != kBlobs) common::RemoveTree(At(name)).IgnoreError();
  }
}

}  // namespace muster::coordinator
