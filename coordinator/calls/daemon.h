// All contexts, as the coordinator owns them. Only the ways in (services/, http/) take it whole, and hand each call the
// contexts that its handler names (handler.h).
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
