// The kernel's cgroups of this process: where they are, whether it may divide them, and their
// memory events. Shared by shim, worker and jobctl; no abseil, no exceptions, no threads. The files
// that it reads are untrusted input, so their size is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::common {

// The next line of `rest`, without its end. False at the end.
bool NextLine(std::string_view* rest, std::string* line);

// The directory of a process's cgroup in the hierarchy of `controller` ("": v2; "name=systemd": a
// named one). `cgroups`: /proc/PID/cgroup, `mounts`: /proc/PID/mountinfo. Empty: not mounted, or
// not visible here. Pure.
std::string CgroupDirectory(const std::string& cgroups, const std::string& mounts,
                            const std::string& controller);
// The same for this process.
std::string OwnCgroup(const std::string& controller);
// Whether this process may create cgroups in its own one. Under systemd, only in one that was
// delegated, even if root could write to it.
bool MayUseCgroup(const std::string& directory);
// Delegate=yes of the unit whose cgroup this is.
bool IsDelegatedCgroup(const std::string& directory);

// How many processes the kernel's OOM killer has killed in the caller's memory cgroup (v2
// memory.events, descendants included, or v1 memory.oom_control). -1 if neither can be read: then
// no exit is ever reported as out of memory.
// `attempt_dir`: of an attempt's v2 cgroup that has the counter itself; empty: none.
int64_t OutOfMemoryKills(const std::string& attempt_dir = {});

// What happened to the memory of one limited rank, from its own cgroup.
struct MemoryEvents {
  int64_t kills = -1;      // of its processes by the kernel; -1: unknown
  bool hit_limit = false;  // the kernel had to refuse memory because of this cgroup's own limit
};
// `directory`: v2 or v1. Numbers that are missing or out of range count as unknown.
MemoryEvents ReadMemoryEvents(const std::string& directory);

}  // namespace muster::common
