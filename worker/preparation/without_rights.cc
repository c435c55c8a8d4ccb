#include "worker/preparation/without_rights.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

constexpr mode_t kSetId = S_ISUID | S_ISGID;
constexpr char kFileCapabilities[] = "security.capability";

absl::Status TakeFrom(const std::string& path, const struct stat& info) {
  if (S_ISLNK(info.st_mode)) return absl::OkStatus();
  if ((info.st_mode & kSetId) != 0 && chmod(path.c_str(), info.st_mode & 07777 & ~kSetId) != 0)
    return common::ErrnoStatus(StrCat("cannot change the mode of ", path));
  if (!S_ISREG(info.st_mode) || lremovexattr(path.c_str(), kFileCapabilities) == 0 ||
      errno == ENODATA || errno == ENOTSUP)
    return absl::OkStatus();
  return common::ErrnoStatus(StrCat("cannot take the capabilities from ", path));
}

}  // namespace

absl::StatusOr<uint64_t> TakeRights(const std::string& directory, uint64_t entries_max) {
  uint64_t bytes = 0, entries = 0;
  std::error_code error;
  // Directories with mode 0 are not an obstacle: a worker that unpacks images is root.
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    if (++entries > entries_max)
      return absl::ResourceExhaustedError(StrCat("it has more than ", entries_max, " files"));
    struct stat info {};
    const std::string path = at->path().string();
    if (lstat(path.c_str(), &info) != 0)
      return common::ErrnoStatus(StrCat("cannot look at ", path));
    RETURN_IF_ERROR(TakeFrom(path, info));
    bytes += uint64_t(info.st_blocks) * 512;
  }
  if (error) return absl::InternalError(StrCat("cannot list ", directory, ": ", error.message()));
  return bytes;
}

}  // namespace muster::worker
