// Checks what a worker reports about its node: within limits, safe to display and to use in
// placement. Pure.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

// INVALID_ARGUMENT names the invalid fact.
absl::Status JudgeFacts(const v1::NodeFacts& facts);

// Versions that a worker read from a job's files, shortened and made safe to print.
v1::Versions BoundVersions(const v1::Versions& said);

}  // namespace muster::coordinator
