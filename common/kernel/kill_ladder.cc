#include "common/kernel/kill_ladder.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

#include "common/files/cgroup_files.h"
#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "common/kernel/shim_protocol.h"

namespace muster::common {
namespace {

constexpr char kCgroupPrefix[] = "muster-";
constexpr int kFreezeWaitMs = 20;
constexpr int kDescriptorWaitMs = 50;
constexpr size_t kKilledAtOnce = 32;
constexpr int kDyingWaitMs = 50;  // how long to wait before checking a killed process again

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
    std::string procs, line;
    errno = 0;
    if (!ReadSmallFile(below + "/cgroup.procs", &procs) && NoDescriptor()) read = false;
    for (std::string_view rest = procs; NextLine(&rest, &line);) {
      pids->push_back(std::atoi(line.c_str()));
    }
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

std::string AttemptCgroupName(const std::string& mark) { return kCgroupPrefix + mark; }

CgroupHost ProbeCgroupHost(KillLevel allow, const std::string& v2_base) {
  CgroupHost host;
  const std::string v2 = v2_base.empty() ? OwnCgroup("") : v2_base;
  if (allow == KillLevel::kCgroupV2 && !v2.empty() && MayUseCgroup(v2) &&
      Probe(v2, "cgroup.kill")) {
    host.level = KillLevel::kCgroupV2;
    host.v2_base = v2;
    return host;
  }
  const std::string freezer = OwnCgroup("freezer");
  if (allow != KillLevel::kProcessScan && !freezer.empty() && MayUseCgroup(freezer) &&
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
    const std::string path = base + "/" + AttemptCgroupName(mark);
    if (!base.empty() && (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST)) *made = path;
  };
  make(host.v2_base, &cgroups.v2_dir);
  make(host.freezer_base, &cgroups.freezer_dir);
  for (const std::string& base : host.limit_bases) {
    const std::string path = base + "/" + AttemptCgroupName(mark);
    if (access(path.c_str(), F_OK) == 0) cgroups.limit_dirs.push_back(path);
  }
  return cgroups;
}

void RemoveAttemptCgroups(const AttemptCgroups& cgroups) {
  std::vector<std::string> directories = cgroups.limit_dirs;
  directories.push_back(cgroups.v2_dir);
  directories.push_back(cgroups.freezer_dir);
  for (const std::string& directory : directories) {
    if (directory.empty()) continue;
    ForEachCgroup(directory, [](const std::string& below) { rmdir(below.c_str()); });
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
  for (const std::string& directory : cgroups.limit_dirs) AppendPids(directory, &pids);
  return pids;
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
  std::vector<std::string> bases = host.limit_bases;
  bases.push_back(host.v2_base);
  bases.push_back(host.freezer_base);
  for (const std::string& base : bases) {
    DIR* entries = base.empty() ? nullptr : opendir(base.c_str());
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

void KillOnce(const std::string& mark, const AttemptCgroups& cgroups,
              const std::vector<KnownProcess>& known, pid_t shim) {
  KillCgroups(cgroups);
  bool whole = true;
  std::vector<ProcessStat> found = FindProcesses(mark, cgroups, known, &whole);
  std::erase_if(found, [shim](const ProcessStat& process) { return process.pid == shim; });
  KillExactly(found);
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
