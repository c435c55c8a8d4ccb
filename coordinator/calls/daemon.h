// All contexts, which the coordinator owns. Only the transports (services/, http/) take all of it; they pass each call
// the contexts that its handler names (handler.h).
#pragma once

#include "coordinator/code/job_code.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/gates/gates.h"

namespace muster::coordinator {

struct Daemon {
  Jobs jobs;
  JobStores stores;
  JobCode job_code;
  Gates gates = {};
  Access access;
  Traffic traffic = {};
  Instance instance;
  Process process;
};

}  // namespace muster::coordinator
