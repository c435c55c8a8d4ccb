// Commands to workers. They follow from the state alone, so they may be repeated, and a
// registration resends them once the node is cleared.
#pragma once

#include <vector>

#include "coordinator/core/decide/effects.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// Commands that follow from `event`, given the state after it.
std::vector<Command> CommandsFor(const ClusterState& state, const v1::Event& event);

// Stops in progress, for a node that is not cleared yet: the attempts that its worker holds must
// stop, no matter how long clearing takes.
std::vector<Command> StopCommands(const ClusterState& state, const std::string& node);

// The stop of the job's attempt, for each node where it is in progress.
std::vector<Command> StopCommandsOf(const ClusterState& state, const v1::JobRecord& job);

// For attempts that are over or unknown here: forget them, or stop them first.
Command DismissCommand(const std::string& node, const v1::AttemptStatus& status);
Command CheckpointAckCommand(const std::string& node, const v1::CheckpointPartReady& part);

}  // namespace muster::coordinator
