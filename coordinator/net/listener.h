// Where the coordinator can be reached: its listening sockets, and errors that explain what is
// wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::coordinator {

// Creates the socket's directory (0700); rejects a path that is too long, a directory of another
// user, and a socket that another process serves; removes a stale socket. Call with the data
// directory locked.
absl::Status PrepareSocket(const std::string& path, bool is_private);
// After PrepareSocket. From the beginning, only the socket's owner (and root) can connect.
absl::StatusOr<common::UniqueFd> ListenOnSocket(const std::string& path);

struct TcpPort {
  std::vector<common::UniqueFd> fds;  // one for each address of the name
  std::string endpoint;               // "HOST:PORT" with the real port
};
// `address`: ADDR:PORT, the value of `flag`. Fails if it cannot be bound: in use, not a local
// address, privileged.
absl::StatusOr<TcpPort> ListenOnPort(const std::string& address,
                                     std::string_view flag = "--listen");

}  // namespace muster::coordinator
