// What a worker may report about its node: within limits, safe to display and to place jobs on.
// Pure.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

// INVALID_ARGUMENT names the invalid fact.
absl::Status JudgeFacts(const v1::NodeFacts& facts);

// What a worker saw in files of a job: short and safe to print.
v1::Versions BoundVersions(const v1::Versions& said);

}  // namespace muster::coordinator
