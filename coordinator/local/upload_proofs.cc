#include "coordinator/local/upload_proofs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/stores/blob_store.h"

namespace muster::coordinator {

using common::StrCat;

absl::Status UploadProofs::Add(const std::string& owner, const std::string& sha256) const {
  if (!common::IsPathName(owner)) return absl::InvalidArgumentError("not a name for an owner");
  RETURN_IF_ERROR(CheckBlobName(sha256));
  const std::string path = StrCat(root_, "/", owner, "/", sha256);
  constexpr int kNew = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  common::UniqueFd file(open(path.c_str(), kNew, 0600));
  if (!file.valid()) {
    // The first of its owner, or all others of it were just removed.
    RETURN_IF_ERROR(common::MakeDirectories(StrCat(root_, "/", owner)));
    file = common::UniqueFd(open(path.c_str(), kNew, 0600));
  }
  if (file.valid()) return absl::OkStatus();
  return common::ErrnoStatus(StrCat("cannot create ", path));
}

bool UploadProofs::Has(const std::string& owner, const std::string& sha256) const {
  if (!common::IsPathName(owner) || !common::IsSha256Hex(sha256)) return false;
  const std::string path = StrCat(root_, "/", owner, "/", sha256);
  return utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0;
}

void UploadProofs::RemoveUnused(const FileAge& age) const {
  const auto owners = common::ListDirectory(root_);
  for (const std::string& owner : owners.ok() ? *owners : std::vector<std::string>()) {
    const std::string directory = StrCat(root_, "/", owner);
    const auto names = common::ListDirectory(directory);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      const std::string path = StrCat(directory, "/", name);
      if (age.IsOlderThan(path, BlobStore::kUnusedKept)) unlink(path.c_str());
    }
    rmdir(directory.c_str());  // if nothing is left
  }
}

}  // namespace muster::coordinator
