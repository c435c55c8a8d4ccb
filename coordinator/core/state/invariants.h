// Invariants of a ClusterState between any two events: its indexes agree with its records, its sums with the
// counted items, no device is in two gangs. The simulator, the scenarios and debug builds check all of them
// after every event, at a cost that grows with the state. Pure.
#pragma once

#include <string>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// "job 7 is in the queue and active"; empty: all hold.
std::string BrokenInvariant(const ClusterState& state);

// Aborts the process if an invariant is broken.
void CheckInvariants(const ClusterState& state);

}  // namespace muster::coordinator
