// Who is at the other end of a unix socket, asked before anything is said to it: a submit carries
// the whole environment. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::client {

// A directory of ours that nobody else may enter. Errors: JC1304.
absl::Status CheckPrivateDirectory(const std::string& directory);
// Directory and socket are ours, and who listens is us or root. Connects, says nothing. OK when
// nobody listens. Errors: JC1304.
absl::Status CheckPrivateSocket(const std::string& directory, const std::string& socket_path);
// A named coordinator's socket: who listens is us, root, or the owner of the socket's directory,
// and no one else can put another socket there. OK when nobody listens. Errors: JC1304.
absl::Status CheckServerSocket(const std::string& socket_path);

}  // namespace muster::client
