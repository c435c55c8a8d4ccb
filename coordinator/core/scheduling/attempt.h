// Makes the attempt that starts a job where placement has put its ranks. Pure.
#pragma once

#include "coordinator/core/scheduling/policy.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// `job`: with its shares.
v1::Attempt MakeAttempt(const SchedulingState& state, Candidate& job, Now now);

}  // namespace muster::coordinator
