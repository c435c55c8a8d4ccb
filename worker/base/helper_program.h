// Where the other programs of this installation are. Any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster::worker {

// A program of ours, like muster-shim, next to this one or in ../libexec/muster. NOT_FOUND lists
// where it was searched for.
absl::StatusOr<std::string> FindHelper(const std::string& name);

}  // namespace muster::worker
