// Checkpoint parts that workers report: recorded, acknowledged again, or refused with the reason.
// Pure.
#pragma once

#include <string>

#include "coordinator/core/checkpoint_rules.h"
#include "coordinator/core/decide.h"

namespace muster::coordinator {

// `problem`: why the part cannot count although the state allows it (its bytes are not in the
// store); usually empty.
void AddCheckpointPart(const ClusterState& state, const PartSender& sender,
                       const v1::CheckpointPartReady& part, const std::string& problem, Now now,
                       Decision& decision);

}  // namespace muster::coordinator
