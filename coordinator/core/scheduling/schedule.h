// Scheduling for a turn: runs a pass over the queue and returns events. Gangs start in the order of the queue
// (state/order.h). The first that waits has a place held; jobs behind it start if they do not delay it (backfill.cc).
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// Events that start the gangs that fit now, and the changed reasons of the head and of jobs that
// step aside. Ties are broken by number.
std::vector<v1::Event> Schedule(SchedulingState& state, Now now);

}  // namespace muster::coordinator
