// Leases the ports that a kind of device's runtime listens on: each attempt gets a block of them on a
// node, which no other live attempt on the host has, whatever worker or container started it. The claim
// is a bound abstract unix socket ("@muster/npu/60032"): as wide as the ports themselves (a network
// namespace), and no obstacle to the runtime's own bind, which a held port would be. The attempt's shim
// gets a copy, so the claim ends when the last of its processes does. Any thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/device_kinds.h"
#include "common/files/files.h"

namespace muster::worker {

struct PortBlock {
  uint16_t first = 0;  // 0: the kind needs no ports
  common::UniqueFd claim;
};

// The first free block, counted from block `turn` on and around the end. All nodes of an attempt pass the
// same turn, so they get the same block unless other attempts are in the way: HCCL over host NICs
// computes a peer's port from its own base. Skips blocks in which another program has bound a port.
// RESOURCE_EXHAUSTED names the range, what is in the way, and the fix.
absl::StatusOr<PortBlock> LeasePortBlock(const common::DeviceKind& kind, uint64_t turn);

}  // namespace muster::worker
