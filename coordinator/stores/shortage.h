// The errors of a store that are waited out.
#pragma once

#include "absl/status/status.h"

namespace muster::coordinator {

// What passes by itself or by a person's hand: a disk without room or inodes (RESOURCE_EXHAUSTED),
// a process without descriptors or an engine that cannot be reached (UNAVAILABLE).
inline bool IsShortage(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace muster::coordinator
