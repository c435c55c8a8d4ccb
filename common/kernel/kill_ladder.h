// How everything that belongs to an attempt is killed, strongest mechanism first, and where its
// cgroups are. Shared by shim and worker; no abseil, no exceptions, no threads. Source: the
// kernel's cgroup v2 documentation (cgroup.kill), prctl(2) PR_SET_CHILD_SUBREAPER.
//
// 1 cgroup v2: cgroup.kill, safe against concurrent forks
// 2 cgroup v1 freezer: freeze, SIGKILL all, thaw
// 3 the shim is a subreaper: while it is alive, having no children proves that no descendant is alive
// 4 without the shim: process groups, descendants and a scan of /proc for the attempt's mark,
//   repeated until nothing is found
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster::common {

enum class KillLevel { kCgroupV2, kFreezer, kProcessScan };

// Where this process may create cgroups, determined once when the worker starts.
struct CgroupHost {
  KillLevel level = KillLevel::kProcessScan;
  std::string v2_base;  // where attempts' cgroups are created; empty: none
  std::string freezer_base;
  std::vector<std::string> limit_bases;  // v1: where the cgroups of limited ranks are created
};

// `allow`: the strongest level to try (tests ask for weaker ones). Creates and removes a probe
// directory. Attempts' cgroups are created below the caller's own, and no controller is enabled for
// them: an inner node with controllers cannot hold processes, so systemd could not restart a worker
// while shims are alive. (worker/limits enables controllers if the worker has its own leaf.)
// Under systemd, only a delegated cgroup is used (Delegate=yes). `v2_base`: where to create
// v2 cgroups instead; empty: below the caller's own.
CgroupHost ProbeCgroupHost(KillLevel allow = KillLevel::kCgroupV2, const std::string& v2_base = {});
// As `nodes show` prints it: "cgroup v2", "cgroup v1 freezer", "subreaper, process group and /proc
// scan".
std::string KillLevelName(const CgroupHost& host);

struct AttemptCgroups {
  std::string v2_dir;                        // goes to ShimLaunch.cgroup_dir
  std::string freezer_dir;                   // goes to ShimLaunch.freezer_dir
  std::vector<std::string> limit_dirs = {};  // goes to ShimLaunch.limit_dirs
};
// "muster-MARK": the name of an attempt's cgroup in every hierarchy.
std::string AttemptCgroupName(const std::string& mark);
// Creates the attempt's cgroups, and finds those that limit it. On failure the members stay empty, and
// the next level of the ladder is used.
AttemptCgroups MakeAttemptCgroups(const CgroupHost& host, const std::string& mark);
// Removes them, with any cgroups that ranks created in them. Harmless if they are gone or not
// empty.
void RemoveAttemptCgroups(const AttemptCgroups& cgroups);

// SIGKILLs everything in the cgroups. False if some level is not usable or processes are still
// there.
bool KillCgroups(const AttemptCgroups& cgroups);
// The pids in both cgroups, including subtrees.
std::vector<pid_t> CgroupPids(const AttemptCgroups& cgroups);

struct KillResult {
  bool empty = true;             // as far as the level can prove it
  std::vector<pid_t> survivors;  // still there at the deadline, e.g. in uninterruptible sleep
  std::string how;               // "empty", or "3 processes survived SIGKILL: 12 13 14"
};

struct KnownProcess {
  pid_t pid = 0;
  uint64_t start_time = 0;
};

// The marks that end with `suffix`, among living processes and the host's attempt cgroups.
std::vector<std::string> FindMarks(const CgroupHost& host, const std::string& suffix);

// Sends SIGKILL once to everything that belongs to an attempt whose shim fails to do so. Spares the shim,
// which proves the end when it runs again.
void KillOnce(const std::string& mark, const AttemptCgroups& cgroups,
              const std::vector<KnownProcess>& known, pid_t shim);

// Level 4, for an attempt without its shim. Spares the calling process. Blocks for at most
// `timeout_ms`.
KillResult KillByMark(const std::string& mark, const AttemptCgroups& cgroups,
                      const std::vector<KnownProcess>& known, int timeout_ms);

}  // namespace muster::common
