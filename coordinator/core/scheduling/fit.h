// Whether a gang fits into the cluster: placement.h's arithmetic, plus the addresses at which ranks
// on several hosts rendezvous.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// Shares in rank order, or nullopt. `previous`: see Place.
std::optional<std::vector<Share>> Fit(const SchedulingState& state, const Usage& usage,
                                      const Demand& demand, const std::string& kind, Which which,
                                      const std::vector<std::string>& previous);

// A gang that spans hosts cannot rendezvous at a loopback address. False: some nodes are only for gangs on one node.
bool AllCanMeet(const std::vector<Capacity>& capacities);

// They keep their positions in the job's next attempt.
std::vector<std::string> NodesOfLastAttempt(const v1::JobRecord& job);

}  // namespace muster::coordinator
