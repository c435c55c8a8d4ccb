#include "coordinator/base/headroom.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::coordinator {

bool Headroom::Reserve() {
  struct stat info {};
  if (stat(path_.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == bytes_) return true;
  const auto fd = common::OpenRegular(path_, O_WRONLY | O_CREAT | O_NOFOLLOW);
  if (!fd.ok()) return false;
  if (posix_fallocate(fd->get(), 0, static_cast<off_t>(bytes_)) == 0) return true;
  unlink(path_.c_str());
  return false;
}

bool Headroom::Release() { return unlink(path_.c_str()) == 0; }

absl::Status Headroom::CheckRoom() const {
  struct stat info {};
  if (stat(path_.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == bytes_) {
    return absl::OkStatus();
  }
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free >= bytes_) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1605",
       .what = common::StrCat("the disk of ", directory, " is almost full: ",
                              common::HumanBytes(free), " are free, and the coordinator reserves ",
                              common::HumanBytes(bytes_), " to record running jobs"),
       .fix = FixOfFullDisk(directory)});
}

bool Headroom::HasRoomAgain() const {
  struct statvfs info {};
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  if (statvfs(directory.c_str(), &info) != 0) return false;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize > 2 * bytes_;
}

std::string FixOfFullDisk(const std::string& data_dir) {
  return common::StrCat("jobctl rm removes finished jobs with all that is kept of them; or free ",
                        common::HumanBytes(2 * Headroom::kBytes), " or more on the disk of ",
                        data_dir, " (du -sh ", data_dir, "/* shows what Muster stores)");
}

}  // namespace muster::coordinator
