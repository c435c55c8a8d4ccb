// What would happen to a job if it were submitted now: decided by the scheduler itself, on a copy of
// what it decides from. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/core/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// What plans are made from: the nodes, what runs and what is queued, without what placement does not read. May be given
// to another thread, and serve many plans.
ClusterState CopyForPlans(const ClusterState& state);

// Errors: those of a spec that would be refused whatever the nodes are (JC11xx). `copy`: CopyForPlans.
absl::StatusOr<v1::PlanJobResponse> PlanSpec(ClusterState copy, const v1::JobSpec& spec, Now now);

}  // namespace muster::coordinator
