// What would happen to a job if it were submitted now: the verdict of a scheduling pass over the real state, with the
// job laid over it. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// All that the scheduler decides from, of the first jobs in the queue. It shares the jobs' records with the
// state, may be given to another thread, and serves many plans.
SchedulingState ShareForPlans(const SchedulingState& state);

// Errors: those of a spec that would be refused whatever the nodes are (JC11xx). `overlay`: of ShareForPlans.
absl::StatusOr<v1::PlanJobResponse> PlanSubmit(SchedulingState overlay, const SubmitInput& input,
                                               Now now);

}  // namespace muster::coordinator
