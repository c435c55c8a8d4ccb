// What a node lacks for a while because others there use it: a port, disk space, a descriptor, a
// process. An attempt that could not start because of it does not count against any budget of its
// job; otherwise another job's ranks could use that budget up. Defines how the worker reports it to
// the coordinator.
#pragma once

#include <cerrno>

namespace muster::common {

// AttemptStatus.how_ended of such an attempt, with STOP_CAUSE_LAUNCH_INTERRUPTED.
inline constexpr char kEndedForShortage[] = "never launched, for lack of room on the node";

// RankExit.launch_errno of such a rank. EMFILE and ENOMEM are limits of its own.
inline bool IsShortage(int launch_errno) {
  return launch_errno == EAGAIN || launch_errno == ENFILE || launch_errno == ENOSPC;
}

// PrepareAttempt.purpose. Only ranks of this node connect to ports of the second kind. Once the worker's range
// is used up, it may be any port, as no firewall between nodes has to let it through.
inline constexpr char kMasterPort[] = "master";
inline constexpr char kMasterPortOfOneNode[] = "master of one node";

}  // namespace muster::common
