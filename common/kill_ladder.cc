#include "common/kill_ladder.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <string_view>

#include "common/process.h"
#include "common/shim_protocol.h"

namespace muster::common {
namespace {

constexpr char kCgroupPrefix[] = "muster-";
constexpr int kFreezeWaitMs = 20;
constexpr int kDescriptorWaitMs = 50;
constexpr size_t kKilledAtOnce = 32;
constexpr int kDyingWaitMs = 50;  // how long to wait before checking a killed process again

struct Lines {
  std::string text;
  size_t at = 0;
  bool Next(std::string* line) {
    if (at >= text.size()) return false;
    const size_t end = std::min(text.find('\n', at), text.size());
    *line = text.substr(at, end - at);
    at = end + 1;
    return true;
  }
};

// The directory of this process's cgroup in the hierarchy of `controller` ("": v2). Empty when not
// mounted.
std::string OwnCgroup(const std::string& controller) {
  std::string line, path;
  Lines cgroups;
  ReadSmallFile("/proc/self/cgroup", &cgroups.text);
  while (cgroups.Next(&line)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool match = controller.empty() ? line.rfind("0::", 0) == 0
                                          : names.find("," + controller + ",") != std::string::npos;
    if (match) path = line.substr(second + 1);
  }
  if (path.empty()) return {};
  Lines mounts;
  ReadSmallFile("/proc/self/mountinfo", &mounts.text);
  while (mounts.Next(&line)) {
    // id parent dev root mount-point options … - type source super-options
    char root[512], point[512];
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos ||
        std::sscanf(line.c_str(), "%*s %*s %*s %511s %511s", root, point) != 2) {
      continue;
    }
    const std::string tail = line.substr(dash + 3) + ",";
    const bool match = controller.empty()
                           ? tail.rfind("cgroup2 ", 0) == 0
                           : tail.rfind("cgroup ", 0) == 0 &&
                                 tail.find("," + controller + ",") != std::string::npos;
    if (!match) continue;
    std::string below = path;
    if (std::strcmp(root, "/") != 0 && below.rfind(root, 0) == 0)
      below = below.substr(std::strlen(root));
    if (below == "/") below.clear();
    return point + below;
  }
  return {};
}

// Under systemd, a cgroup that was not delegated is systemd's to manage, even if root could write
// to it.
bool MayUse(const std::string& directory) {
  if (access((directory + "/cgroup.procs").c_str(), W_OK) != 0 ||
      access(directory.c_str(), W_OK) != 0) {
    return false;
  }
  if (getuid() != 0 || access("/run/systemd/system", F_OK) != 0) return true;
  char value = 0;
  return (getxattr(directory.c_str(), "trusted.delegate", &value, 1) == 1 && value == '1') ||
         (getxattr(directory.c_str(), "user.delegate", &value, 1) == 1 && value == '1');
}

// Whether a child cgroup with the file `needed` can be created here.
bool Probe(const std::string& base, const char* needed) {
  const std::string probe = base + "/muster-probe-" + std::to_string(getpid());
  if (mkdir(probe.c_str(), 0755) != 0) return false;
  const bool works = access((probe + "/" + needed).c_str(), W_OK) == 0;
  rmdir(probe.c_str());
  return works;
}

// False if part of the tree could not be read because no descriptor was free.
bool ForEachCgroup(const std::string& directory, auto visit) {
  bool whole = true;
  errno = 0;
  if (DIR* entries = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(entries)) {
      if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
        whole &= ForEachCgroup(directory + "/" + entry->d_name, visit);
      }
    }
    closedir(entries);
  } else {
    whole = !NoDescriptor();
  }
  visit(directory);
  return whole;
}

// False as for ForEachCgroup.
bool AppendPids(const std::string& directory, std::vector<pid_t>* pids) {
  if (directory.empty()) return true;
  bool read = true;
  const bool listed = ForEachCgroup(directory, [pids, &read](const std::string& below) {
    Lines procs;
    std::string line;
    errno = 0;
    if (!ReadSmallFile(below + "/cgroup.procs", &procs.text) && NoDescriptor()) read = false;
    while (procs.Next(&line)) pids->push_back(std::atoi(line.c_str()));
  });
  return listed && read;
}

bool KillV2(const std::string& directory) {
  if (!WriteControlFile(directory + "/cgroup.kill", "1")) return errno == ENOENT;
  std::string events;
  ReadSmallFile(directory + "/cgroup.events", &events);
  return events.find("populated 0") != std::string::npos;
}

bool KillFreezer(const std::string& directory) {
  const std::string state = directory + "/freezer.state";
  std::vector<pid_t> pids;
  const bool whole = AppendPids(directory, &pids);
  if (pids.empty()) return whole;
  WriteControlFile(state, "FROZEN");
  std::string now;
  for (int i = 0; i < kFreezeWaitMs && now.rfind("FROZEN", 0) != 0; ++i) {
    ReadSmallFile(state, &now);
    if (now.rfind("FROZEN", 0) != 0) poll(nullptr, 0, 1);
  }
  pids.clear();
  AppendPids(directory, &pids);
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  WriteControlFile(state, "THAWED");
  return false;  // dying; the next call sees it empty
}

// Kills exactly these processes, never a later one with the same pid, and waits briefly for them to
// exit.
void KillSome(std::span<const ProcessStat> processes) {
  std::vector<pollfd> dying;
  for (const ProcessStat& process : processes) {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
    if (pidfd < 0) continue;
    ProcessStat again;
    if (ReadProcessStat(process.pid, &again) && again.start_time == process.start_time) {
      syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
    }
    dying.push_back({pidfd, POLLIN, 0});
  }
  const int64_t deadline = MonotonicMicros() + kDyingWaitMs * 1000;
  for (pollfd& entry : dying) {
    const int64_t left = std::max<int64_t>(0, deadline - MonotonicMicros());
    poll(&entry, 1, static_cast<int>((left + 999) / 1000));
    close(entry.fd);
  }
}

// In small groups, because each process takes a descriptor.
void KillExactly(std::span<const ProcessStat> processes) {
  for (; !processes.empty();
       processes = processes.subspan(std::min(kKilledAtOnce, processes.size())))
    KillSome(processes.first(std::min(kKilledAtOnce, processes.size())));
}

bool Alive(const ProcessStat& process) { return process.state != 'Z' && process.state != 'X'; }

std::vector<ProcessStat> FindProcesses(const std::string& mark, const AttemptCgroups& cgroups,
                                       const std::vector<KnownProcess>& known, bool* whole) {
  const std::vector<ProcessStat> all = ListProcesses(whole);
  const std::vector<pid_t> in_cgroups = CgroupPids(cgroups);
  std::set<pid_t> ours(in_cgroups.begin(), in_cgroups.end());
  std::set<pid_t> leaders;
  for (const ProcessStat& process : all) {
    const bool is_known =
        std::any_of(known.begin(), known.end(), [&process](const KnownProcess& candidate) {
          return candidate.pid == process.pid && candidate.start_time == process.start_time;
        });
    if (is_known) leaders.insert(process.pid);
    if (is_known || (!mark.empty() && Alive(process) &&
                     EnvironValue(process.pid, kMarkVariable, whole) == mark)) {
      ours.insert(process.pid);
    }
  }
  // Children that cleared their environment are recognized by their parent, or by the session of a
  // rank found here.
  for (bool grew = true; grew;) {
    grew = false;
    for (const ProcessStat& process : all) {
      const bool belongs = ours.count(process.ppid) > 0 || leaders.count(process.session) > 0;
      if (belongs && ours.insert(process.pid).second) grew = true;
    }
  }
  std::vector<ProcessStat> found;
  for (const ProcessStat& process : all) {
    if (ours.count(process.pid) > 0 && Alive(process) && process.pid != getpid()) {
      found.push_back(process);
    }
  }
  return found;
}

}  // namespace

CgroupHost ProbeCgroupHost(KillLevel allow) {
  CgroupHost host;
  const std::string v2 = OwnCgroup("");
  if (allow == KillLevel::kCgroupV2 && !v2.empty() && MayUse(v2) && Probe(v2, "cgroup.kill")) {
    host.level = KillLevel::kCgroupV2;
    host.v2_base = v2;
    return host;
  }
  const std::string freezer = OwnCgroup("freezer");
  if (allow != KillLevel::kProcessScan && !freezer.empty() && MayUse(freezer) &&
      Probe(freezer, "freezer.state")) {
    host.level = KillLevel::kFreezer;
    host.freezer_base = freezer;
  }
  return host;
}

std::string KillLevelName(const CgroupHost& host) {
  switch (host.level) {
    case KillLevel::kCgroupV2:
      return "cgroup v2";
    case KillLevel::kFreezer:
      return "cgroup v1 freezer";
    case KillLevel::kProcessScan:
      break;
  }
  return "subreaper, process group and /proc scan";
}

AttemptCgroups MakeAttemptCgroups(const CgroupHost& host, const std::string& mark) {
  AttemptCgroups cgroups;
  const auto make = [&mark](const std::string& base, std::string* made) {
    const std::string path = base + "/" + kCgroupPrefix + mark;
    if (!base.empty() && (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST)) *made = path;
  };
  make(host.v2_base, &cgroups.v2_dir);
  make(host.freezer_base, &cgroups.freezer_dir);
  return cgroups;
}

void RemoveAttemptCgroups(const AttemptCgroups& cgroups) {
  for (const std::string* directory : {&cgroups.v2_dir, &cgroups.freezer_dir}) {
    if (directory->empty()) continue;
    ForEachCgroup(*directory, [](const std::string& below) { rmdir(below.c_str()); });
  }
}

bool KillCgroups(const AttemptCgroups& cgroups) {
  const bool v2_empty = cgroups.v2_dir.empty() || KillV2(cgroups.v2_dir);
  const bool freezer_empty = cgroups.freezer_dir.empty() || KillFreezer(cgroups.freezer_dir);
  return v2_empty && freezer_empty;
}

std::vector<pid_t> CgroupPids(const AttemptCgroups& cgroups) {
  std::vector<pid_t> pids;
  AppendPids(cgroups.v2_dir, &pids);
  AppendPids(cgroups.freezer_dir, &pids);
  return pids;
}

int64_t OutOfMemoryKills() {
  // The root of a hierarchy does not have this counter.
  const auto counter = [](const std::string& path) -> int64_t {
    Lines lines;
    std::string line;
    long long count = 0;
    ReadSmallFile(path, &lines.text);
    while (lines.Next(&line)) {
      if (std::sscanf(line.c_str(), "oom_kill %lld", &count) == 1) return count;
    }
    return -1;
  };
  const std::string v2 = OwnCgroup("");
  const int64_t count = v2.empty() ? -1 : counter(v2 + "/memory.events");
  if (count >= 0) return count;
  const std::string v1 = OwnCgroup("memory");
  return v1.empty() ? -1 : counter(v1 + "/memory.oom_control");
}

std::vector<std::string> FindMarks(const CgroupHost& host, const std::string& suffix) {
  const auto ends = [&suffix](const std::string& mark) {
    return mark.size() > suffix.size() &&
           mark.compare(mark.size() - suffix.size(), suffix.size(), suffix) == 0;
  };
  std::set<std::string> marks;
  for (bool whole = false; !whole;) {
    whole = true;
    for (const ProcessStat& process : ListProcesses(&whole)) {
      const std::string mark =
          Alive(process) ? EnvironValue(process.pid, kMarkVariable, &whole) : "";
      if (ends(mark)) marks.insert(mark);
    }
    if (!whole) poll(nullptr, 0, kDescriptorWaitMs);  // no process may be missed
  }
  for (const std::string* base : {&host.v2_base, &host.freezer_base}) {
    DIR* entries = base->empty() ? nullptr : opendir(base->c_str());
    if (entries == nullptr) continue;
    while (const dirent* entry = readdir(entries)) {
      const std::string name = entry->d_name;
      const size_t prefix = sizeof kCgroupPrefix - 1;
      if (name.compare(0, prefix, kCgroupPrefix) == 0 && ends(name)) {
        marks.insert(name.substr(prefix));
      }
    }
    closedir(entries);
  }
  return {marks.begin(), marks.end()};
}

KillResult KillByMark(const std::string& mark, const AttemptCgroups& cgroups,
                      const std::vector<KnownProcess>& known, int timeout_ms) {
  const int64_t deadline = MonotonicMicros() + timeout_ms * int64_t{1000};
  KillResult result;
  // Two clean scans: for an instant during execve a process shows no environment.
  for (int clean = 0; clean < 2;) {
    const bool cgroups_empty = KillCgroups(cgroups);
    bool whole = true;
    const std::vector<ProcessStat> found = FindProcesses(mark, cgroups, known, &whole);
    KillExactly(found);
    clean = found.empty() && cgroups_empty && whole ? clean + 1 : 0;
    if (clean < 2 && MonotonicMicros() > deadline) {
      result.empty = false;
      result.how = whole ? std::to_string(found.size()) + " processes survived SIGKILL:"
                         : "no free descriptor to inspect every process";
      for (const ProcessStat& process : found) {
        result.survivors.push_back(process.pid);
        result.how += " " + std::to_string(process.pid);
      }
      return result;
    }
    if (clean == 0 && found.empty())
      poll(nullptr, 0, 1);  // exiting in the cgroup, no pid to wait for
  }
  RemoveAttemptCgroups(cgroups);
  result.how = "empty";
  return result;
}

}  // namespace muster::common
