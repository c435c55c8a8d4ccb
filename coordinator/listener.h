// Where the coordinator can be reached: checks before gRPC binds, so that errors say what is wrong.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::coordinator {

// Makes the socket's directory (0700), refuses a path that is too long, a directory of somebody
// else, a socket that another process serves; removes a stale one. Call with the data directory
// locked.
absl::Status PrepareSocket(const std::string& path, bool is_private);
// Refuses an address that cannot be bound: in use, not ours, privileged.
absl::Status CheckPort(const std::string& address);

}  // namespace muster::coordinator
