// What would happen to a job if it were submitted now: decided by the scheduler itself, on a copy of
// what it decides from. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/core/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// Errors: those of a spec that would be refused whatever the nodes are (JC11xx).
absl::StatusOr<v1::PlanJobResponse> PlanSpec(const ClusterState& state, const v1::JobSpec& spec,
                                             Now now);

}  // namespace muster::coordinator
