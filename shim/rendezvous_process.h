// Starts the store that the ranks meet at, or this node's way to it: muster-rendezvous, as the ranks' account, outside of
// their sandbox. It dies with the shim. The shim's only thread.
#pragma once

#include <sys/types.h>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

struct RendezvousProcess {
  pid_t pid = -1;  // -1: errno
  // To write a u32 to for each rank that has exited: its index. Closed, it ends the store.
  int exits = -1;
};
RendezvousProcess StartRendezvous(const common::ShimLaunch& launch);

}  // namespace muster::shim
