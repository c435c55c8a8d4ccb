// What a worker may report about its node: within limits, safe to display and to place jobs on.
// Pure.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

// INVALID_ARGUMENT names the invalid fact.
absl::Status JudgeFacts(const v1::NodeFacts& facts);

}  // namespace muster::coordinator
