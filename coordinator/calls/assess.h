// Judging the running jobs, again and again.
#pragma once

#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {

// Now and every few seconds, until the pool stops.
void KeepAssessing(Jobs& jobs, JobStores& stores, Traffic& traffic, Process& process);

}  // namespace muster::coordinator
