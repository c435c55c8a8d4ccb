// Connecting to a unix socket, as to the worker's.
#pragma once

#include <string>

#include "base/files.h"

namespace muster {

// A connected stream that never blocks; invalid when nobody listens there, or the path is too long.
FileDescriptor connect_unix_socket(const std::string& path);

}  // namespace muster
