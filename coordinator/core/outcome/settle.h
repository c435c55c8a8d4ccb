// Consequences: rules that depend on current state, not on the triggering event. After any input,
// any replay and any passage of time, the same rules finish unfinished work.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// The next consequence for the job, or nothing. Apply it and call again.
std::optional<v1::Event> JobConsequence(const ClusterState& state, const v1::JobRecord& job,
                                        Now now);
// The same for a node (suspect, lost): all consequences, to be applied in this order.
std::vector<v1::Event> NodeConsequence(const ClusterState& state, const Node& node, Now now);
// The ends of the parts on a silent node whose ranks must have stopped themselves by now. After the consequences of all
// nodes, because they tell whether only this node is silent.
std::vector<v1::Event> FencedParts(const ClusterState& state, const Node& node, Now now);
// Records what happened to the node in the event histories of the jobs that run on it.
void AddSilence(const ClusterState& state, const std::string& node, v1::NodeState to,
                const std::string& reason, Now now, std::vector<v1::Event>& facts);

}  // namespace muster::coordinator
