// What holds of a ClusterState between any two events: its indexes agree with its records, its sums with what
// they count, no device is in two gangs. The simulator, the scenarios and debug builds check it after every
// event; all of it, at a cost that grows with the state. Pure.
#pragma once

#include <string>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// "job 7 is in the queue and active"; empty: all hold.
std::string BrokenInvariant(const ClusterState& state);

// Stops the process at a broken one.
void CheckInvariants(const ClusterState& state);

}  // namespace muster::coordinator
