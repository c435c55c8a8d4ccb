// A daemon's directory, which only the daemon may enter, and the missing directories above it, which others may
// pass through: a parent that only its creator may enter would also keep other users out of what lies next to
// it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::common {

// Creates `path` with mode 0700 and missing parents with 0711, whatever the umask is; existing directories keep
// their mode.
absl::Status MakePrivateDirectory(const std::string& path);

}  // namespace muster::common
