// Runs a job's command that is not a rank (`notify`, `setup`) like the ranks: as their account, in
// their sandbox, for a bounded time. Blocks; a job's thread.
#pragma once

#include <string>
#include <vector>

#include "common/files/files.h"
#include "common/kernel/shim_protocol.h"
#include "worker/base/bounded_command.h"
#include "worker/confinement/rank_account.h"

namespace muster::worker {

struct Confinement {
  std::string shim_binary;
  bool no_new_privs = false;
  common::LaunchSandbox sandbox;  // with its paths
  // With a bundle for rank 0 instead of all of the above.
  common::LaunchContainer container = {};
  std::string mark = {};  // names the container
  std::vector<std::string> env =
      {};  // "NAME=value": identifies the process that waits for the command
};

// What muster-shim reads from its descriptor (common/kernel/shim_protocol.h), in memory. Invalid: no
// descriptor is free.
common::UniqueFd LaunchInMemory(const common::ShimLaunch& launch);

// `command` has passed CheckLaunch. Fills in the program, words, environment, directory and descriptor of
// `bounds`.
CommandOutput RunConfined(const Confinement& confinement, const RankAccount& account,
                          const common::RankLaunch& command, BoundedCommand bounds);

}  // namespace muster::worker
