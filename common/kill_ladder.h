// How everything of an attempt is ended, strongest means first, and where its cgroups are. Shared
// by shim and worker; no abseil, no exceptions, no threads. Source: docs of cgroup v2
// (cgroup.kill), prctl(2) PR_SET_CHILD_SUBREAPER.
//
// 1 cgroup v2: cgroup.kill, also against concurrent forks
// 2 cgroup v1 freezer: freeze, SIGKILL all, thaw
// 3 the shim is a subreaper: while it lives, "no child left" proves that no descendant is alive
// 4 without the shim: process groups, descendants and a scan of /proc for the attempt's mark, until
// nothing is found
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster::common {

enum class KillLevel { kCgroupV2, kFreezer, kProcessScan };

// Where this process may make cgroups, found once when the worker starts.
struct CgroupHost {
  KillLevel level = KillLevel::kProcessScan;
  std::string v2_base;  // directory in which attempts get their cgroup; empty: none
  std::string freezer_base;
};

// `allow`: the strongest level to try (tests ask for weaker ones). Makes and removes a probe
// directory. Attempts' cgroups lie below the caller's own one, and no controller is enabled for
// them: an inner node with controllers could not take processes again, so that systemd could not
// restart a worker while shims live. Under systemd only a delegated cgroup is used (Delegate=yes).
CgroupHost ProbeCgroupHost(KillLevel allow = KillLevel::kCgroupV2);
// What `nodes show` says: "cgroup v2", "cgroup v1 freezer", "subreaper, process group and /proc
// scan".
std::string KillLevelName(const CgroupHost& host);

struct AttemptCgroups {
  std::string v2_dir;       // goes to ShimLaunch.cgroup_dir
  std::string freezer_dir;  // goes to ShimLaunch.freezer_dir
};
// Makes the attempt's cgroups. On failure the members stay empty: the next level of the ladder does
// it.
AttemptCgroups MakeAttemptCgroups(const CgroupHost& host, const std::string& mark);
// Removes them (and cgroups that ranks made in them). Harmless when they are gone or not empty.
void RemoveAttemptCgroups(const AttemptCgroups& cgroups);

// SIGKILL to all in the cgroups. Returns false when some level is not usable or processes are still
// there.
bool KillCgroups(const AttemptCgroups& cgroups);
// Pids in both cgroups, subtree included.
std::vector<pid_t> CgroupPids(const AttemptCgroups& cgroups);

// How many processes the kernel's OOM killer ended in the caller's memory cgroup (v2 memory.events,
// below it included, or v1 memory.oom_control). -1 where neither can be read: then nothing is ever
// called out of memory.
int64_t OutOfMemoryKills();

struct KillResult {
  bool empty = true;             // proven as far as the level can prove
  std::vector<pid_t> survivors;  // still there at the deadline, e.g. in uninterruptible sleep
  std::string how;               // "empty", or "3 processes survive SIGKILL: 12 13 14"
};

struct KnownProcess {
  pid_t pid = 0;
  uint64_t start_time = 0;
};

// The marks, among those of living processes and of the host's attempt cgroups, that end with
// `suffix`.
std::vector<std::string> FindMarks(const CgroupHost& host, const std::string& suffix);

// Level 4, for an attempt without its shim. Spares the calling process. Blocks, at most
// `timeout_ms`.
KillResult KillByMark(const std::string& mark, const AttemptCgroups& cgroups,
                      const std::vector<KnownProcess>& known, int timeout_ms);

}  // namespace muster::common
