// torch's own rendezvous: rank 0 opens a TCPStore on MASTER_PORT, and all ranks connect to it. Its node
// keeps the port free until then: docs/launch-contract.md.
#pragma once

#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {

// Holds a port on the node of rank 0; null elsewhere.
absl::StatusOr<std::unique_ptr<Rendezvous>> OpenForRankZero(const v1::PrepareAttempt& order,
                                                            PortHolder& ports);
// Sets MASTER_ADDR and MASTER_PORT, and tells ranks that no agent has opened a store.
void TellOfRankZero(const v1::LaunchAttempt& launch, const std::vector<uint16_t>& rank_ports,
                    uint32_t local_rank, std::map<std::string, std::string>* environment);

}  // namespace muster::worker
