// The directory of a daemon, which is its own alone, below others that it makes on the way, which are
// not: a way that only its maker may walk keeps everybody out of what lies beside it, too.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::common {

// `path` with mode 0700, what is missing above it with 0711, whatever the umask; what is there stays
// as it is.
absl::Status MakePrivateDirectory(const std::string& path);

}  // namespace muster::common
