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

}  // namespace muster::coordinator
