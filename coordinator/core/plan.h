// What would happen to a job if it were submitted now: the verdict of a scheduling pass over the real state, with the
// job laid over it. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// Copies everything that the scheduler decides from, with only the first jobs in the queue. The copy shares the
// jobs' records with the state, may be given to another thread, and serves many plans.
SchedulingState ShareForPlans(const SchedulingState& state);

// Errors: those of a spec that would be refused on any nodes (JC11xx). `overlay`: from ShareForPlans.
absl::StatusOr<v1::PlanJobResponse> PlanSubmit(SchedulingState overlay, const SubmitInput& input,
                                               Now now);

}  // namespace muster::coordinator
