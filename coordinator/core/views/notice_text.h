// Who is asked to leave, and why, in words. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// Once it has left: "gave way to job calm-otter-3, which has a higher priority", "stopped by uid:1000", "left node3, which
// is drained: new disk".
std::string WhyItLeft(const v1::Notice& notice);
// While it is asked to: "is to give way to job …, once it has saved", "asked by uid:1000 to save and stop".
std::string WhyItLeaves(const v1::Notice& notice);

}  // namespace muster::coordinator
