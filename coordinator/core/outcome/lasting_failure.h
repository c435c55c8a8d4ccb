// Failures that another attempt would only repeat. Pure.
#pragma once

#include <string_view>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// Why the same command would fail the same way again, as in "the module would be missing again"; empty
// unless the rank's exit code and last words are one of a few that no restart heals. A short list: what
// may be the node's fault, the network's or a file's that is still being written is not on it.
std::string_view WhyItWouldRecur(const v1::RankExit& exit);

}  // namespace muster::coordinator
