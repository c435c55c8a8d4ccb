// Which process is at the other end of a unix socket, checked before anything is sent: a submit
// carries the whole environment. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::client {

// A directory of ours that no other user may enter. Errors: JC1304.
absl::Status CheckPrivateDirectory(const std::string& directory);
// Directory and socket are ours, and the listening process is ours or root's. Connects, sends
// nothing. OK if no process listens. Errors: JC1304.
absl::Status CheckPrivateSocket(const std::string& directory, const std::string& socket_path);
// A named coordinator's socket: the listening process belongs to us, root, or the owner of the
// socket's directory, and no other user can put another socket there. OK if no process listens.
// Errors: JC1304.
absl::Status CheckServerSocket(const std::string& socket_path);

}  // namespace muster::client
