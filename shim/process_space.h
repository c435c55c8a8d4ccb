// A PID namespace for the processes of an attempt on a node. None of their calls can name a process of another
// job, not even calls for priority, limits, affinity or /proc, where a system call filter could not tell
// another job's number from that of their own threads. All ranks share one, because they trace, map and signal
// each other (NCCL, CUDA, MPI). Processes outside see them under the node's numbers, as children of the shim.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

struct ProcessSpace {
  pid_t first = -1;  // process 1 inside: reaps orphans; the kernel kills all others when it exits
  int fd = -1;       // for setns(2)
  int alive = -1;    // the first process exits when this is closed, so also when this process exits
  bool IsMade() const { return first > 0; }
};

// Starts the first process, as an account that no rank of the attempt has, without capabilities. Call it before
// EnterOwnDomain. Empty, or the reason of a failure.
std::string MakeProcessSpace(const common::ShimLaunch& launch, ProcessSpace* space);

// Processes that this process starts from now on are in the namespace. 0 or an errno.
int StartInside(const ProcessSpace& space);

// Starts to end all processes in the namespace. The first one can be waited for once no other is left.
void EndProcessSpace(ProcessSpace* space);

// True if the first process is the only child left and has killed the others: it then waits only until
// the parents of `jobctl exec` commands have reaped theirs.
bool OnlyFirstIsLeft(const ProcessSpace& space, const std::vector<pid_t>& children);

}  // namespace muster::shim
