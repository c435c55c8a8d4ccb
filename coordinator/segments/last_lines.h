// Where a log's last lines begin, from the counts in its records: only two bodies are read.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

// A last line without its newline counts as a line, and so do damaged lines.
absl::StatusOr<uint64_t> OffsetOfLastLines(const StreamSegments& stream, uint64_t lines);

}  // namespace muster::coordinator
