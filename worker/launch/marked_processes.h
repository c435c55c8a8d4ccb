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

// To the processes of the session, which `leader` leads, and those that have the mark. How many there
// were.
int SignalMarked(const ProcessMark& mark, pid_t leader, int signal);
// SIGKILL until there are none; gives up after a while on those that the kernel holds. The leader
// must not have been reaped yet.
void KillMarked(const ProcessMark& mark, pid_t leader);
// SIGKILL to all that descend from `leader`, which is stopped meanwhile, and then to it. If it is their
// subreaper nothing escapes, whatever its session and its environment.
void KillBelow(pid_t leader);
// To all whose variable has a value with this end, and what descends from them: those of a worker that
// was killed.
void KillMarkedBefore(const std::string& variable, std::string_view end);

}  // namespace muster::worker
