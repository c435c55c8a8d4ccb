// What becomes of a job when one of its attempts has ended: the restart policy.
#pragma once

#include "coordinator/core/state.h"

namespace muster::coordinator {

// The cause and the sentence that an attempt ends with. All its parts have ended.
v1::AttemptEnded JudgeAttempt(const v1::Attempt& attempt);

// The job's next state after its newest attempt, which has ended: final, queued again at once, or
// after a pause.
v1::JobStateChanged JudgeJob(const ClusterState& state, const v1::JobRecord& job);

// Trainers leave with this code to say "do not retry".
inline constexpr int kDoNotRetryExitCode = 93;

}  // namespace muster::coordinator
