// What follows from the state by itself: rules that look at levels, not at edges. After any input,
// any replay and any passage of time the same rules finish what was begun.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/state.h"

namespace muster::coordinator {

// The next thing that follows for the job, or nothing. Apply it and ask again.
std::optional<v1::Event> JobConsequence(const ClusterState& state, const v1::JobRecord& job,
                                        Now now);
// The same for a node (suspect, lost): all that follows, to be applied in this order.
std::vector<v1::Event> NodeConsequence(const ClusterState& state, const Node& node, Now now);
// Tells the jobs that run on the node, in their own histories, what became of it.
void AddSilence(const ClusterState& state, const std::string& node, v1::NodeState to,
                const std::string& reason, Now now, std::vector<v1::Event>& facts);

// When silence of the node proves that its part of the job's attempt has stopped itself
// (monotonic), or nullopt: never.
std::optional<int64_t> FencedAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                      const v1::NodePart& part);

}  // namespace muster::coordinator
