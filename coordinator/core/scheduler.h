// One pass over the queue: gangs, in strict order of (priority, number). The head of the queue
// blocks, unless only nodes that are out of service could hold it: then jobs behind it go first,
// and it keeps its place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/state.h"

namespace muster::coordinator {

// Events that start the gangs that fit now, and the changed reasons of the head and of jobs that
// step aside. Ties are broken by number.
std::vector<v1::Event> Schedule(ClusterState& state, Now now);

// The attempt that would start now if the job were at the head of the queue, or nullopt.
std::optional<v1::Attempt> PlanAttempt(const ClusterState& state, const v1::JobRecord& job,
                                       Now now);

inline constexpr char kBehindOthers[] =
    "waits behind jobs that came first or have a higher priority";

}  // namespace muster::coordinator
