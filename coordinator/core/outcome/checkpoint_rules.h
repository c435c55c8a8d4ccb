// When a checkpoint counts: parts are fenced by their attempt, the checkpoint is committed once
// complete, and kept according to the job's policy.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Checkpoints of one job that lack parts; parts of more steps are refused.
// limit: checkpoints and outputs: checkpoints of a job that lack parts; the part of another is refused
inline constexpr int kUnfinishedCheckpointsMax = 1'000;

// OK if the part may be recorded. ALREADY_EXISTS: it is already recorded, acknowledge it again.
// PERMISSION_DENIED: the attempt was not assigned to this incarnation of the node's worker. Any
// other status is the reason to refuse it.
struct PartSender {
  std::string node;
  uint64_t incarnation = 0;
};
absl::Status JudgePart(const ClusterState& state, const PartSender& sender,
                       const v1::CheckpointPartReady& part);

// The next consequence for the job's checkpoints: a commit, or a removal by policy.
std::optional<v1::Event> CheckpointConsequence(const ClusterState& state, const v1::JobRecord& job,
                                               Now now);

const v1::Checkpoint* FindCheckpoint(const v1::JobRecord& job, int64_t step, uint32_t attempt);

}  // namespace muster::coordinator
