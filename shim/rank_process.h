// Starts one rank: fork, session, descriptors, limits, cgroup, sandbox, account, exec. The shim's only thread;
// returns at once, and exec_pipe shows whether exec succeeded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "common/kernel/shim_protocol.h"
#include "shim/process_space.h"

namespace muster::shim {

// What a child reports if it could not become the rank.
struct ExecFailure {
  common::ExecStage stage = common::ExecStage::kNone;
  int32_t error = 0;
};

struct RankSetup {
  const common::RankLaunch* launch = nullptr;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int cgroup_fd = -1;         // directory of the attempt's v2 cgroup; -1: none
  int freezer_procs_fd = -1;  // cgroup.procs of its v1 freezer; -1: none
  std::vector<int> limit_procs_fds =
      {};  // cgroup.procs of the cgroups that limit this rank; -1: not there
  int oom_score_adj = 0;
  const common::ShimLaunch* attempt = nullptr;  // whose account and sandbox it gets
  int mounts_fd = -1;                           // its mount namespace; -1: the shim's
  int ipc_fd = -1;                              // its IPC namespace; -1: the shim's
  bool is_inside = false;  // starts in the attempt's PID namespace (process_space.h)
  pid_t parent = 0;        // set by StartRank: the rank dies with this process; 0: it does not
};

struct RankProcess {
  pid_t pid = -1;
  int exec_pipe = -1;  // EOF: exec succeeded; an ExecFailure: it failed. The caller closes it
  int error = 0;       // errno when pid is -1
};

// For a rank in a container it starts the runtime, unconfined and in the background.
RankProcess StartRank(const RankSetup& setup);

// Starts a command in a container and waits for it. Returns its exit code, or dies of the same signal. The
// caller's mounts are the container's (shim/container_mounts.h); `space` ends with the command.
int RunContainer(const RankSetup& setup, ProcessSpace* space);

// The same as StartRank without a fork: this process becomes the program, with its own standard streams. Returns
// only if it cannot.
ExecFailure BecomeProgram(const RankSetup& setup);

}  // namespace muster::shim
