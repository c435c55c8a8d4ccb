// Where a log's last lines begin, by the counts in its records: no body but two is read.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {

// A last line that its newline still lacks counts as a line. Lines that are damaged count, too.
absl::StatusOr<uint64_t> OffsetOfLastLines(const SegmentFiles& files, uint64_t lines);

}  // namespace muster::coordinator
