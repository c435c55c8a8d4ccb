#include "worker/events/open_event_files.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/kernel/process.h"
#include "common/text/strings.h"
#include "worker/sampling/descriptors.h"

namespace muster::worker {
namespace {

constexpr size_t kProcessesMax = 4'096;
constexpr size_t kDescriptorsPerLook = 50'000;

// A process follows its parent in the list unless pids have wrapped: then the next look finds it.
std::vector<common::ProcessStat> WithDescendants(const std::set<int64_t>& pids) {
  std::set<int64_t> family;
  for (const int64_t pid : pids) {
    if (kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH) family.insert(pid);
  }
  std::vector<common::ProcessStat> members;
  if (family.empty()) return members;
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
  const auto look = [&](const std::string& link, const std::string& target) {
    if (target.find("tfevents", target.rfind('/') + 1) == std::string::npos) return;
    struct stat info {};
    if (!IsOpenForWriting(link, &info) || !S_ISREG(info.st_mode)) return;
    found.push_back({target, info.st_ino, process.pid, StartedUs(process)});
  };
  ForEachDescriptor(common::StrCat("/proc/", process.pid), left, look);
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
