// When a running job will be done. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "coordinator/findings/evidence.h"

namespace muster::coordinator {

// Steps left × the median of the newest step times, in milliseconds. Absent unless the job runs,
// has reported its total of steps, and has done enough of them in this attempt. After a restart it
// counts from the step that the attempt resumed from, so it includes repeated steps.
std::optional<int64_t> EtaMs(const Evidence& evidence);

}  // namespace muster::coordinator
