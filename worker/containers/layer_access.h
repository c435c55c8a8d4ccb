// The writable layer of an attempt's ranks, as seen from the node.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace muster::worker {

// Lets one account pass through a directory of the worker's, and nobody else, by an access control
// list: what ranks wrote in their layer is read with their account's rights (event files, outputs).
// UNIMPLEMENTED: the file system has no such lists, and the directory stays closed.
absl::Status LetPass(const std::string& directory, uid_t account);

}  // namespace muster::worker
