// Where a stream's records of some time and later begin, from the segments' indexes.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

// An offset at which a record begins, at most some 64 KiB before the first record of `time_us` or
// later. Where a node's clock was set back, records before the offset may have later times.
absl::StatusOr<uint64_t> OffsetSince(const StreamSegments& stream, int64_t time_us);

}  // namespace muster::coordinator
