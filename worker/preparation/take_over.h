// What a job's setup made becomes the worker's: its ranks can read it, and cannot change it for the
// attempts that come later. A thread that may block.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace muster::worker {

// `directory` is open; nothing of the account that wrote it runs any more. With `changes_owner`
// everything becomes this process's: files 0644 or 0755, directories 0755, no set-id bits; a file that
// has other names elsewhere is replaced by a copy, as its owner keeps those; sockets, FIFOs and devices
// are removed. Links are never followed. Returns the bytes on the disk. FAILED_PRECONDITION: it has
// more than 2,000,000 entries or 128 levels.
absl::StatusOr<uint64_t> TakeOver(int directory, bool changes_owner,
                                  const std::function<bool()>& stopped);

}  // namespace muster::worker
