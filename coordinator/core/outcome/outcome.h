// What happens to a job after one of its attempts ends: the restart policy.
#pragma once

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// The cause and the sentence for an attempt all of whose parts have ended.
v1::AttemptEnded JudgeAttempt(const v1::Attempt& attempt);

// The job's next state after its newest attempt has ended: final, queued again at once, or after a
// pause.
v1::JobStateChanged JudgeJob(const ClusterState& state, const v1::JobRecord& job);

// Trainers exit with this code to prevent a retry.
inline constexpr int kDoNotRetryExitCode = 93;

}  // namespace muster::coordinator
