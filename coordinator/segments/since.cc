#include "coordinator/segments/since.h"

#include <vector>

#include "common/base/status.h"
#include "coordinator/segments/scan.h"

namespace muster::coordinator {
namespace {

constexpr size_t kHeadWindowBytes = 8 << 10;

// Whether all its records are older. False without a trailer: the segment still grows.
absl::StatusOr<bool> IsOlder(const StreamSegments& stream, uint64_t segment, int64_t time_us) {
  SegmentScan scan(stream.Open(segment), kHeadWindowBytes);
  ASSIGN_OR_RETURN(const auto trailer, scan.Trailer());
  return trailer.has_value() && trailer->last_us < time_us;
}

}  // namespace

absl::StatusOr<uint64_t> OffsetSince(const StreamSegments& stream, int64_t time_us) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, stream.List());
  if (segments.empty()) return 0;
  size_t first = 0;
  // The last segment is always read: it may carry the stream's end.
  for (size_t behind = segments.size() - 1; first < behind;) {
    const size_t middle = first + (behind - first) / 2;
    ASSIGN_OR_RETURN(const bool is_older, IsOlder(stream, segments[middle], time_us));
    if (is_older) {
      first = middle + 1;
    } else {
      behind = middle;
    }
  }
  SegmentScan scan(stream.Open(segments[first]), kHeadWindowBytes);
  RETURN_IF_ERROR(
      scan.SeekBefore([&](const IndexEntry& entry) { return entry.time_us < time_us; }));
  ASSIGN_OR_RETURN(const auto record, scan.Next());
  return record.has_value() ? record->offset : segments[first];
}

}  // namespace muster::coordinator
