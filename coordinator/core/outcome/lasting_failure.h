// Failures that another attempt would only repeat. Pure.
#pragma once

#include <string_view>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// Why the same command would fail the same way again, as in "the module would be missing again"; empty unless
// the rank's exit code and last words are one of a few that no restart heals. A short list, without failures
// that the node, the network or a file that is still being written may have caused.
std::string_view WhyItWouldRecur(const v1::RankExit& exit);

}  // namespace muster::coordinator
