// Removes what in an image would give rights on the node. A thread that may block.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace muster::worker {

// Takes set-id bits and file capabilities from everything below a directory that only the worker can
// change. The files belong to the worker, and copies of them in a rank's layer keep both: without
// this, a user who reaches that layer on the node could become the worker's account. Returns the bytes
// that they take on the disk. RESOURCE_EXHAUSTED: there are more than `entries_max`.
absl::StatusOr<uint64_t> TakeRights(const std::string& directory, uint64_t entries_max);

}  // namespace muster::worker
