// What a worker may say of its node: within limits, and safe to show and to place on. Pure.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

// INVALID_ARGUMENT names the fact that cannot be.
absl::Status JudgeFacts(const v1::NodeFacts& facts);

}  // namespace muster::coordinator
