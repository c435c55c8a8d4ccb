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
// SIGKILL to all whose variable has a value with this end: those of a worker that was killed.
void KillMarkedBefore(const std::string& variable, std::string_view end);

}  // namespace muster::worker
