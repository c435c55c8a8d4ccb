#include "worker/containers/mount_sources.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/files/files.h"
#include "common/files/mount_info.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::IsWithin;
using common::MountEntry;
using common::StrCat;

constexpr size_t kMountInfoBytesMax = 16 << 20;
// File systems that show the kernel's state instead of stored files. Source: Linux.
constexpr std::string_view kOfTheKernel[] = {
    "proc",       "sysfs",   "cgroup",   "cgroup2", "devtmpfs",  "devpts",      "debugfs",
    "tracefs",    "bpf",     "configfs", "pstore",  "efivarfs",  "binfmt_misc", "securityfs",
    "selinuxfs",  "fusectl", "nsfs",     "mqueue",  "hugetlbfs", "resctrl",     "rpc_pipefs",
    "functionfs", "nfsd",    "xenfs",    "smackfs"};

// The topmost mount at the path. Null: unknown.
const MountEntry* MountOf(const std::vector<MountEntry>& entries, const std::string& path) {
  const MountEntry* found = nullptr;
  for (const MountEntry& entry : entries) {
    const bool is_closer = found == nullptr || entry.point.size() >= found->point.size();
    if (is_closer && IsWithin(path, entry.point)) found = &entry;
  }
  return found;
}

std::string Join(const std::string& directory, std::string_view below) {
  const std::string start = directory == "/" ? "" : directory;
  return below.empty() || below == "/" ? directory
                                       : StrCat(start, below.front() == '/' ? "" : "/", below);
}

// The path in its own file system, whatever it is mounted as.
std::string PathInside(const MountEntry& entry, const std::string& path) {
  const size_t skipped = entry.point == "/" ? 0 : entry.point.size();
  return Join(entry.root, std::string_view(path).substr(skipped));
}

}  // namespace

std::string WhyNoSource(const std::string& mountinfo, const std::string& source,
                        const std::vector<std::string>& hidden) {
  const std::vector<MountEntry> entries = common::ParseMountInfo(mountinfo);
  // What the job would see: each mount, and the path inside its file system.
  std::vector<std::pair<const MountEntry*, std::string>> shown;
  if (const MountEntry* const holds = MountOf(entries, source))
    shown.emplace_back(holds, PathInside(*holds, source));
  for (const MountEntry& entry : entries) {
    if (entry.point != source && IsWithin(entry.point, source))
      shown.emplace_back(&entry, entry.root);
  }
  if (shown.empty()) return "the worker cannot find out what is mounted there";
  for (const auto& [entry, path] : shown) {
    if (std::find(std::begin(kOfTheKernel), std::end(kOfTheKernel), entry->type) !=
        std::end(kOfTheKernel))
      return StrCat("it would show the kernel's own files (", entry->type, " at ", entry->point,
                    "), through which jobs reach each other");
    for (const std::string& directory : hidden) {
      const MountEntry* const holds = MountOf(entries, directory);
      if (holds == nullptr || holds->device != entry->device) continue;
      const std::string own = PathInside(*holds, directory);
      if (IsWithin(path, own) || IsWithin(own, path))
        return StrCat("it is, or holds, ", directory,
                      ", which is the worker's own, under another name");
    }
  }
  return {};
}

std::string WhyNoSource(const std::string& source, const std::vector<std::string>& hidden) {
  const absl::StatusOr<std::string> mounts =
      common::ReadFile("/proc/self/mountinfo", kMountInfoBytesMax);
  return mounts.ok() ? WhyNoSource(*mounts, source, hidden) : common::MessageOf(mounts.status());
}

}  // namespace muster::worker
