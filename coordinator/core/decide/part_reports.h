// Checkpoint parts that workers report: recorded, acknowledged again, or refused with the reason.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/core/decide/decide.h"
#include "coordinator/core/outcome/checkpoint_rules.h"

namespace muster::coordinator {

// `problem`: why the part cannot count although the state allows it (its bytes are not in the
// store); usually empty.
void AddCheckpointPart(const ClusterState& state, const PartSender& sender,
                       const v1::CheckpointPartReady& part, const std::string& problem, Now now,
                       Decision& decision);

// Whether a node's report about a checkpoint that it could not take, or that was refused, becomes
// an event. If the text differs each time, only the first hundred of an attempt do.
bool IsNewCheckpointError(const v1::NodePart& part, std::string_view why);

}  // namespace muster::coordinator
