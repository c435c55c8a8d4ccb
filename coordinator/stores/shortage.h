// The errors of a store that its callers wait out.
#pragma once

#include "absl/status/status.h"

namespace muster::coordinator {

// Conditions that pass, or that a person resolves: a disk without room or inodes (RESOURCE_EXHAUSTED),
// a process without descriptors or an engine that cannot be reached (UNAVAILABLE).
inline bool IsShortage(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace muster::coordinator
