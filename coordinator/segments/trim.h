// Removes data from a stream for a quota: whole segments at its beginning, which do not change any
// more. One record replaces them and has the number of their bytes. Offsets and line numbers of the
// rest stay as they were. One thread at a time for a stream; readers may be in the middle.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/segments/files.h"
#include "coordinator/segments/format.h"

namespace muster::coordinator {

struct FinishedSegment {
  uint64_t first_offset = 0;
  uint64_t end_offset = 0;
  uint64_t end_count = 0;
  uint64_t bytes = 0;    // of the file
  int64_t last_us = 0;   // of this one and those before it: later segments are never older
  bool has_end = false;  // nothing follows in the stream
};

// The finished segments of a stream from its beginning, up to the first one that may still grow.
absl::StatusOr<std::vector<FinishedSegment>> FinishedSegments(const SegmentFiles& files);

// Removes this segment and all before it. Afterwards readers see a gap in their place
// (RecordHead::removed), even a reader that was in the middle of one. Repeat it after an error.
absl::Status RemoveUntil(const SegmentFiles& files, const SegmentId& id,
                         const FinishedSegment& last);

}  // namespace muster::coordinator
