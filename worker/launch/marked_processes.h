// Processes that are recognized by a variable in their environment, wherever their parents have gone:
// what commands that the worker runs leave behind. Any thread; blocks for as long as /proc takes.
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
// Sends SIGKILL until there are none; gives up after a while on processes that the kernel does not end.
// The leader must not have been reaped yet.
void KillMarked(const ProcessMark& mark, pid_t leader);
// Sends SIGKILL to all descendants of `leader`, which is stopped meanwhile, and then to the leader. If it
// is their subreaper none escapes, whatever its session and environment.
void KillBelow(pid_t leader);
// To all whose variable has a value with this end, and what descends from them: those of a worker that
// was killed.
void KillMarkedBefore(const std::string& variable, std::string_view end);

}  // namespace muster::worker
