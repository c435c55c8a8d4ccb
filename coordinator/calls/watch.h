// Jobs that end with their client (jobctl run).
#pragma once

#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {

// After a restart: cancels attached jobs whose client does not come back.
void CancelAbandonedRuns(Jobs& jobs, Instance& instance, Process& process);

}  // namespace muster::coordinator
