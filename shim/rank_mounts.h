// What the ranks of an attempt see of the file system: one mount namespace for all of them, so that
// they share /tmp and /dev/shm with each other (NCCL and MPI meet there) and with no other job.
#pragma once

#include <string>

#include "common/shim_protocol.h"

namespace muster::shim {

// Makes the namespace in a short-lived process, so that the caller keeps its own view. Returns a
// descriptor for setns(2), or -1 and why. The caller blocks SIGCHLD, or does not mind one.
int MakeRankMounts(const common::LaunchSandbox& sandbox, const common::LaunchAccount& account,
                   std::string* failure);

}  // namespace muster::shim
