// Starts one rank: fork, session, descriptors, limits, cgroup, exec. The shim's only thread;
// returns at once, and exec_pipe shows whether exec succeeded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "common/shim_protocol.h"

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
  bool no_new_privs = false;
};

struct RankProcess {
  pid_t pid = -1;
  int exec_pipe = -1;  // EOF: exec succeeded; an ExecFailure: it failed. The caller closes it
  int error = 0;       // errno when pid is -1
};

RankProcess StartRank(const RankSetup& setup);

}  // namespace muster::shim
