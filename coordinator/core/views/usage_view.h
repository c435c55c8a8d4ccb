// Device time in groups, as people ask for it. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// INVALID_ARGUMENT: an unknown group or month. What lives counts up to now.
absl::StatusOr<v1::ListUsageResponse> ViewUsage(const SchedulingState& state,
                                                const v1::ListUsageRequest& request, Now now);

}  // namespace muster::coordinator
