// One daemon per data directory: an flock on LOCK, which also contains the owner's pid for people.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::coordinator {

// FAILED_PRECONDITION names the process that holds it. Retries for `timeout`: a coordinator that
// was killed a moment ago still holds it while exiting.
absl::StatusOr<common::UniqueFd> LockDataDirectory(const std::string& path,
                                                   std::chrono::milliseconds timeout);
// The pid that holds an flock on `path`, from /proc/locks or the file's text; 0: none.
int LockHolder(const std::string& path);

}  // namespace muster::coordinator
