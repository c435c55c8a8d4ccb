#include "worker/open_event_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <memory>

#include "common/process.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

constexpr size_t kProcessesMax = 4'096;
constexpr size_t kDescriptorsPerLook = 50'000;

// A process follows its parent in the list unless pids have wrapped: then the next look finds it.
std::vector<common::ProcessStat> WithDescendants(const std::set<int64_t>& pids) {
  std::set<int64_t> family = pids;
  std::vector<common::ProcessStat> members;
  for (const common::ProcessStat& process : common::ListProcesses()) {
    if (!family.contains(process.pid) && !family.contains(process.ppid)) continue;
    family.insert(process.pid);
    members.push_back(process);
    if (members.size() == kProcessesMax) break;
  }
  return members;
}

int64_t StartedUs(const common::ProcessStat& process) {
  const auto ticks = static_cast<double>(process.start_time);
  const auto after_boot_us =
      static_cast<int64_t>(ticks * 1e6 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  return common::WallMicros() - (common::MonotonicMicros() - after_boot_us);
}

void FindOf(const common::ProcessStat& process, size_t& left, std::vector<OpenEventFile>& found) {
  const std::string directory = common::StrCat("/proc/", process.pid, "/fd");
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  while (const dirent* entry = open != nullptr && left > 0 ? readdir(open.get()) : nullptr) {
    --left;
    const std::string link = directory + "/" + entry->d_name;
    char text[PATH_MAX];
    const ssize_t size = readlink(link.c_str(), text, sizeof text);
    const std::string path(text, size > 0 ? static_cast<size_t>(size) : 0);
    if (path.find("tfevents", path.rfind('/') + 1) == std::string::npos) continue;
    struct stat mode {
    }, info{};
    const bool is_written = lstat(link.c_str(), &mode) == 0 && (mode.st_mode & S_IWUSR) != 0;
    if (!is_written || stat(link.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    found.push_back({path, info.st_ino, process.pid, StartedUs(process)});
  }
}

}  // namespace

std::vector<OpenEventFile> FindOpenEventFiles(const std::set<int64_t>& pids) {
  std::vector<OpenEventFile> found;
  if (pids.empty()) return found;
  size_t left = kDescriptorsPerLook;
  for (const common::ProcessStat& process : WithDescendants(pids)) FindOf(process, left, found);
  return found;
}

}  // namespace muster::worker
