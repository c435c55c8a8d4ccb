// When waiting jobs are expected to start: the scheduler's own passes, over a copy of the state whose clock runs ahead
// from one expected end to the next. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// Twice, once with every end as expected (ends.h) and once with every end as late as the scheduler allows for: a job's
// times are the earlier and the later start. Jobs whose start depends on an end of which nothing is known are not
// there, nor are those beyond the bound on passes. `shared`: from ShareForPlans.
using StartsByJob = std::map<uint64_t, v1::StartTimes>;
StartsByJob ForeseeStarts(const SchedulingState& shared, Now now);

// "expected to start in 40m to 55m".
std::string DescribeStarts(const v1::StartTimes& starts);

// The first waiting jobs, as clients get them.
v1::ListQueueResponse ViewQueue(const SchedulingState& shared, const StartsByJob& starts,
                                uint32_t limit, Now now);

}  // namespace muster::coordinator
