// Makes the worker the owner of what a job's setup made: ranks can read it, but cannot change it for
// later attempts. A thread that may block.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace muster::worker {

// `directory` is open; the setup that wrote it has no process left. With `changes_owner` everything
// becomes owned by this process: files 0644 or 0755, directories 0755, no set-id bits; a file that has
// other names elsewhere is replaced by a copy, as its old owner could still change it through those;
// sockets, FIFOs and devices are removed. Never follows links. Returns the bytes on the disk.
// FAILED_PRECONDITION: it has more than 2,000,000 entries or 128 levels.
absl::StatusOr<uint64_t> TakeOver(int directory, bool changes_owner,
                                  const std::function<bool()>& stopped);

}  // namespace muster::worker
