// JobCode: the context of the code that jobs bring along (contexts.h).
#pragma once

#include <cstdint>

#include "coordinator/code/code_check.h"
#include "coordinator/code/code_uploads.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

struct JobCode {
  CodeStore& store;
  // For the objects of each project; 0: no limit.
  uint64_t quota_bytes = 0;
  // Likewise for one person, in all projects.
  uint64_t person_quota_bytes = 0;
  CodeChecks checks = {};
  CodeUploads uploads = {};
};

}  // namespace muster::coordinator
