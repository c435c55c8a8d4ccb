// Muster's rendezvous: a store of the attempt on the node of rank 0, and a relay to it on each other node, which the
// attempt's shims start (rendezvous/). Ranks reach the one on their own node, at a separate port of the loopback
// interface each, so that the store knows which rank it talks to, and other accounts do not get in. Nodes show each other a
// secret of the attempt, which the node of rank 0 makes and the coordinator passes on.
#pragma once

#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {

// On the node of rank 0: a held port, and the secret. Null elsewhere.
absl::StatusOr<std::unique_ptr<Rendezvous>> OpenAttemptStore(const v1::PrepareAttempt& order,
                                                             PortHolder& ports);
absl::StatusOr<RankSockets> ListenForRanks(const v1::LaunchAttempt& launch);
// MASTER_ADDR and MASTER_PORT are the rank's own; MUSTER_MASTER_ADDR is the address of rank 0's node.
void TellOfAttemptStore(const v1::LaunchAttempt& launch, const std::vector<uint16_t>& rank_ports,
                        uint32_t local_rank, std::map<std::string, std::string>* environment);
std::string AttemptStoreSettings(const v1::LaunchAttempt& launch, size_t offered, size_t sockets);

}  // namespace muster::worker
