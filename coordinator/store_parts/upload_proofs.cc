#include "coordinator/store_parts/upload_proofs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/stores/blob_store.h"

namespace muster::coordinator {

using common::StrCat;

namespace {

absl::Status CheckNames(const std::string& owner, const std::string& sha256) {
  if (!common::IsPathName(owner)) return absl::InvalidArgumentError("not a name for an owner");
  return CheckBlobName(sha256);
}

}  // namespace

absl::Status UploadProofs::Add(const std::string& owner, const std::string& sha256) const {
  RETURN_IF_ERROR(CheckNames(owner, sha256));
  const std::string directory = StrCat(root_, "/", owner);
  const std::string path = StrCat(directory, "/", sha256);
  constexpr int kNew = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  common::UniqueFd file(open(path.c_str(), kNew, 0600));
  if (!file.valid()) {
    // The owner's first proof, or its others were all just removed.
    RETURN_IF_ERROR(common::MakeDirectories(directory));
    file = common::UniqueFd(open(path.c_str(), kNew, 0600));
    if (!file.valid()) return common::ErrnoStatus(StrCat("cannot create ", path));
    RETURN_IF_ERROR(common::SyncDirectory(root_));
  }
  return common::SyncDirectory(directory);
}

absl::StatusOr<bool> UploadProofs::Has(const std::string& owner, const std::string& sha256) const {
  RETURN_IF_ERROR(CheckNames(owner, sha256));
  const std::string path = StrCat(root_, "/", owner, "/", sha256);
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  return common::ErrnoStatus(StrCat("cannot use ", path));
}

void UploadProofs::RemoveUnused(const FileAge& age) const {
  const auto owners = common::ListDirectory(root_);
  for (const std::string& owner : owners.ok() ? *owners : std::vector<std::string>()) {
    const std::string directory = StrCat(root_, "/", owner);
    const auto names = common::ListDirectory(directory);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      const std::string path = StrCat(directory, "/", name);
      if (age.IsOlderThan(path, kUnusedKept)) unlink(path.c_str());
    }
    rmdir(directory.c_str());  // if nothing is left
  }
}

}  // namespace muster::coordinator
