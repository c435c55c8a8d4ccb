// One daemon per data directory: an flock on LOCK, which also holds the owner's pid for people.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace muster::coordinator {

// FAILED_PRECONDITION names the process that holds it. Tries for `patience`: a coordinator that was
// killed an instant ago still holds it while it dies.
absl::StatusOr<common::UniqueFd> LockDataDirectory(const std::string& path,
                                                   std::chrono::milliseconds patience);
// The pid that holds an flock on `path`, from /proc/locks or the file's text; 0: nobody.
int LockHolder(const std::string& path);

}  // namespace muster::coordinator
