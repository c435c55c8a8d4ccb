// The writable layer of an attempt's ranks, as seen from the node.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace muster::worker {

// Lets one account, and no other, pass through a directory of the worker, by an access control list:
// the worker reads what ranks wrote in their layer with their account's rights (event files, outputs).
// UNIMPLEMENTED: the file system has no such lists, and the directory stays closed.
absl::Status LetPass(const std::string& directory, uid_t account);

}  // namespace muster::worker
