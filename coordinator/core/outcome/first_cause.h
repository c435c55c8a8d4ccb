// Which death of an attempt was the first, and which only followed from it. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "muster/v1/event.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// True for what libraries print when a peer is gone: "Connection closed by peer", ncclRemoteError, a
// collective's timeout. Such a rank failed because another one did, if any other failed.
bool ReadsAsPeerLoss(std::string_view line);

// For an attempt that is stopped because a rank failed, once all its parts have ended. The first
// failure to arrive was taken for the cause. If that rank only lost its peers, the cause is the
// earliest failure of a rank that did not: on the same node by the node's monotonic clock,
// otherwise a death by the kernel (out of memory) or a signal before an exit. If there is none, the
// cause is a node that was lost meanwhile. Corrects `ended`, and adds how many others failed
// because of it.
void JudgeFirstCause(const v1::Attempt& attempt, v1::AttemptEnded& ended);

}  // namespace muster::coordinator
