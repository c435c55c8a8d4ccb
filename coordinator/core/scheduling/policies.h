// The policies, in the order in which a job meets them: the first that objects is what the job is told.
#pragma once

#include <memory>
#include <span>

#include "coordinator/core/scheduling/policy.h"

namespace muster::coordinator {

using MakePolicy = std::unique_ptr<Policy> (*)(Ground& ground);
std::span<const MakePolicy> Policies();

}  // namespace muster::coordinator
