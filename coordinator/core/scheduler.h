// One pass over the queue: gangs, strict order of (priority, number), the head of the line blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/state.h"

namespace muster::coordinator {

// Events that start the gangs which fit now, and the changed reason of the job at the head. Ties
// are broken by number.
std::vector<v1::Event> Schedule(const ClusterState& state, Now now);

// The attempt that would start now if the job were at the head, or nullopt.
std::optional<v1::Attempt> PlanAttempt(const ClusterState& state, const v1::JobRecord& job,
                                       Now now);

// What the job waits for if it were at the head: "needs 8 gpu; free now: 5 (node-b 3, node-a 2)".
// Empty: it fits.
std::string BlockedReason(const ClusterState& state, const v1::JobRecord& job);

// Why no set of registered nodes could ever hold the shape, with the largest that could; empty:
// some set could, or none is registered.
std::string NeverFits(const ClusterState& state, const v1::Shape& shape);

inline constexpr char kBehindOthers[] =
    "waits behind jobs that came first or have a higher priority";

}  // namespace muster::coordinator
