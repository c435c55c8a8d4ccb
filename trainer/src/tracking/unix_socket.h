// Connects to a unix socket, such as the worker's.
#pragma once

#include <string>

#include "base/files.h"

namespace muster {

// A connected non-blocking stream; invalid if no process listens there or the path is too long.
FileDescriptor connect_unix_socket(const std::string& path);

}  // namespace muster
