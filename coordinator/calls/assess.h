// Assesses the running jobs repeatedly.
#pragma once

#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {

// Assesses now and every few seconds, until the pool stops.
void KeepAssessing(Jobs& jobs, JobStores& stores, Traffic& traffic, Process& process);

}  // namespace muster::coordinator
