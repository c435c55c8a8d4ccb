// The policies, in the order in which they are asked about a job: the first one that objects gives the job's
// reason.
#pragma once

#include <memory>
#include <span>

#include "coordinator/core/scheduling/policy.h"

namespace muster::coordinator {

using MakePolicy = std::unique_ptr<Policy> (*)(Ground& ground);
std::span<const MakePolicy> Policies();

}  // namespace muster::coordinator
