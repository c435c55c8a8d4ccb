#include "shim/system_mounts.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "common/files/mount_info.h"
#include "common/files/plain_files.h"
#include "common/kernel/closed_to_ranks.h"

namespace muster::shim {
namespace {

constexpr char kMountInfo[] = "/proc/self/mountinfo";
constexpr size_t kMountInfoBytesMax = 4 << 20;
constexpr char kProc[] = "/proc";
constexpr char kSys[] = "/sys";
constexpr char kQueues[] = "/dev/mqueue";
constexpr char kNothing[] = "/dev/null";
constexpr unsigned long kDataOnly = MS_NOSUID | MS_NODEV | MS_NOEXEC;

std::string NotMounted(const std::string& what, const std::string& path) {
  return "cannot " + what + " " + path + ": " + std::strerror(errno);
}

bool MakeReadOnly(const char* path) {
  return mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kDataOnly, nullptr) == 0;
}

std::string Protect(const char* path) {
  if (mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) != 0)
    return errno == ENOENT ? "" : NotMounted("protect", path);
  return MakeReadOnly(path) ? "" : NotMounted("protect", path);
}

std::string Mask(const char* path) {
  struct stat info {};
  if (stat(path, &info) != 0) return {};
  const bool is_masked = S_ISDIR(info.st_mode)
                             ? mount("muster", path, "tmpfs", MS_RDONLY | kDataOnly, "size=0k") == 0
                             : mount(kNothing, path, nullptr, MS_BIND, nullptr) == 0;
  return is_masked ? "" : NotMounted("cover", path);
}

}  // namespace

std::string ProtectCgroups() {
  std::string mounts;
  if (!common::ReadSmallFile(kMountInfo, &mounts, kMountInfoBytesMax))
    return NotMounted("read", kMountInfo);
  for (const common::MountEntry& mount : common::ParseMountInfo(mounts)) {
    if (mount.type != "cgroup" && mount.type != "cgroup2") continue;
    if (!MakeReadOnly(mount.point.c_str())) return NotMounted("protect", mount.point);
  }
  return {};
}

std::string ProtectKernelFiles() {
  std::string failure;
  for (const char* path : common::kReadOnlyPaths) {
    if (failure.empty()) failure = Protect(path);
  }
  return failure;
}

std::string MountOwnProc() {
  if (mount("proc", kProc, "proc", kDataOnly, nullptr) != 0) return NotMounted("mount", kProc);
  std::string failure = ProtectKernelFiles();
  for (const char* path : common::kMaskedPaths) {
    if (failure.empty()) failure = Mask(path);
  }
  if (failure.empty() && !MakeReadOnly(kSys) && errno != EINVAL)
    failure = NotMounted("protect", kSys);
  return failure;
}

std::string MountOwnQueues() {
  struct stat info {};
  if (stat(kQueues, &info) != 0) return {};  // none here
  if (mount("mqueue", kQueues, "mqueue", kDataOnly, nullptr) == 0 || errno == ENODEV) return {};
  return NotMounted("mount", kQueues);
}

}  // namespace muster::shim
