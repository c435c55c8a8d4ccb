// Scheduling for a turn: runs a pass over the queue and returns events. Gangs start in strict order of (priority,
// number). The head of the queue blocks, unless only nodes that are out of service could hold it: then jobs behind it
// go first, and it keeps its place.
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// Events that start the gangs that fit now, and the changed reasons of the head and of jobs that
// step aside. Ties are broken by number.
std::vector<v1::Event> Schedule(SchedulingState& state, Now now);

}  // namespace muster::coordinator
