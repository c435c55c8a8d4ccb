// Prepares the containers of an attempt in one mount namespace and one IPC namespace for all its ranks on this
// node. The ranks share the writable layer over the image, its /tmp, and /dev/shm (NCCL and MPI meet there, the
// first rank downloads for all); everything is gone when the last rank has exited. Each rank's runtime starts
// in these namespaces and derives the rank's own from them.
#pragma once

#include <string>

#include "common/kernel/shim_protocol.h"
#include "shim/rank_mounts.h"

namespace muster::shim {

// Makes the mounts that LaunchContainer describes. `processes_fd`: the PID namespace that runtimes
// are to join (process_space.h). Empty descriptors: `failure` tells why.
RankMounts MakeContainerMounts(const common::LaunchContainer& container,
                               const common::LaunchAccount& account, int processes_fd,
                               std::string* failure);

// The same, but in this process, which stays in the new namespaces. Empty, or the reason of a
// failure.
std::string EnterContainerMounts(const common::LaunchContainer& container,
                                 const common::LaunchAccount& account, int processes_fd);

}  // namespace muster::shim
