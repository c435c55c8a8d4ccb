// What workers are told. Commands follow from the state alone: they may be repeated, and a
// registration repeats them once the node is cleared.
#pragma once

#include <vector>

#include "coordinator/core/turn.h"

namespace muster::coordinator {

// Commands that follow from `event`, with the state as it is after it.
std::vector<Command> CommandsFor(const ClusterState& state, const v1::Event& event);

// Stops that are under way, for a node that is not cleared yet: what its worker holds has to end
// however long the rest takes.
std::vector<Command> StopCommands(const ClusterState& state, const std::string& node);

// For attempts that are over or unknown here: forget it, or stop it first.
Command DismissCommand(const std::string& node, const v1::AttemptStatus& status);
Command CheckpointAckCommand(const std::string& node, const v1::CheckpointPartReady& part);

}  // namespace muster::coordinator
