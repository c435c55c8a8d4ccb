// Finds processes that the worker's commands leave behind, by a variable in their environment, even if their
// parents are gone. Any thread; blocks for as long as /proc takes.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace muster::worker {

struct ProcessMark {
  std::string variable;
  std::string value;
};

// Signals the processes of the session that `leader` leads, and those that have the mark. Returns how
// many there were.
int SignalMarked(const ProcessMark& mark, pid_t leader, int signal);
// Sends SIGKILL until none is left; gives up after a while on processes that the kernel does not end. The
// leader must not have been reaped yet.
void KillMarked(const ProcessMark& mark, pid_t leader);
// Sends SIGKILL to all descendants of `leader`, which is stopped meanwhile, and then to the leader. If it is
// their subreaper, none escapes, whatever its session and environment.
void KillBelow(pid_t leader);
// Sends SIGKILL to all processes whose variable has a value with this end, and to their descendants: those that
// a killed worker left behind.
void KillMarkedBefore(const std::string& variable, std::string_view end);

}  // namespace muster::worker
