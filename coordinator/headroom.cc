#include "coordinator/headroom.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "common/files.h"
#include "common/problem.h"
#include "common/strings.h"
#include "common/units.h"

namespace muster::coordinator {

bool Headroom::Reserve() {
  struct stat info {};
  if (stat(path_.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == kBytes) return true;
  common::UniqueFd fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return false;
  if (posix_fallocate(fd.get(), 0, static_cast<off_t>(kBytes)) == 0) return true;
  unlink(path_.c_str());
  return false;
}

bool Headroom::Release() { return unlink(path_.c_str()) == 0; }

absl::Status Headroom::CheckRoom() const {
  struct stat info {};
  if (stat(path_.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == kBytes) {
    return absl::OkStatus();
  }
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free >= kBytes) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1605",
       .what = common::StrCat("the disk of ", directory, " is almost full: ",
                              common::HumanBytes(free), " are free, and the coordinator reserves ",
                              common::HumanBytes(kBytes), " to record running jobs"),
       .fix = common::StrCat("free ", common::HumanBytes(kBytes - free), " or more there (df -h ",
                             directory, "; du -sh ", directory, "/* shows what Muster stores)")});
}

bool Headroom::HasRoomAgain() const {
  struct statvfs info {};
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  if (statvfs(directory.c_str(), &info) != 0) return false;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize > 2 * kBytes;
}

}  // namespace muster::coordinator
