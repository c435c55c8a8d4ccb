// Where the coordinator can be reached: the sockets that listen, and errors that say what is wrong.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"

namespace muster::coordinator {

// Makes the socket's directory (0700), refuses a path that is too long, a directory of somebody
// else, a socket that another process serves; removes a stale one. Call with the data directory
// locked.
absl::Status PrepareSocket(const std::string& path, bool is_private);
// After PrepareSocket. Nobody but its owner (and root) can connect, from its first moment on.
absl::StatusOr<common::UniqueFd> ListenOnSocket(const std::string& path);

struct TcpPort {
  std::vector<common::UniqueFd> fds;  // one for each address of the name
  std::string endpoint;               // "HOST:PORT" with the real port
};
// `address`: ADDR:PORT. Refuses one that cannot be bound: in use, not ours, privileged.
absl::StatusOr<TcpPort> ListenOnPort(const std::string& address);

}  // namespace muster::coordinator
