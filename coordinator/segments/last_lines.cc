#include "coordinator/segments/last_lines.h"

#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "coordinator/segments/layout.h"
#include "coordinator/segments/scan.h"

namespace muster::coordinator {
namespace {

constexpr size_t kWindowBytes = 16 << 10;

// Newlines up to the end of the last record that is not empty, and whether it ends mid-line.
struct StreamEnd {
  uint64_t newlines = 0;
  bool has_open_line = false;
};

// The segment's last record that is not empty. Empty ones follow it: marks of the stream's end.
absl::StatusOr<std::optional<ScannedRecord>> LastWithBytes(SegmentScan& scan) {
  uint64_t before = common::kLogStreamBytesMax + 1;
  while (true) {
    RETURN_IF_ERROR(
        scan.SeekBefore([before](const IndexEntry& entry) { return entry.offset < before; }));
    std::optional<ScannedRecord> first, last;
    while (true) {
      ASSIGN_OR_RETURN(const auto record, scan.Next());
      if (!record.has_value()) break;
      if (!first.has_value()) first = record;
      if (record->length > 0) last = record;
    }
    if (last.has_value() || !first.has_value() || first->offset >= before) return last;
    before = first->offset;
  }
}

absl::StatusOr<StreamEnd> EndOf(const StreamSegments& stream,
                                const std::vector<uint64_t>& segments) {
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    SegmentScan scan(stream.Open(*segment), kWindowBytes);
    ASSIGN_OR_RETURN(const auto last, LastWithBytes(scan));
    if (!last.has_value()) continue;
    const absl::StatusOr<std::string> body = scan.Body(*last);
    if (absl::IsDataLoss(body.status())) return StreamEnd{.newlines = last->count};
    RETURN_IF_ERROR(body.status());
    const uint64_t newlines = LinesIn(*body);
    return StreamEnd{last->count + newlines, body->back() != '\n'};
  }
  return StreamEnd{};
}

// The last record of the segment that has fewer than `newlines` newlines before it. nullopt: the
// segment begins later.
absl::StatusOr<std::optional<ScannedRecord>> RecordWith(SegmentScan& scan, uint64_t newlines) {
  ASSIGN_OR_RETURN(const auto head, scan.Head());
  if (!head.has_value() || head->first_count >= newlines) return std::nullopt;
  RETURN_IF_ERROR(scan.SeekBefore([&](const IndexEntry& entry) { return entry.count < newlines; }));
  std::optional<ScannedRecord> found;
  while (true) {
    ASSIGN_OR_RETURN(const auto record, scan.Next());
    if (!record.has_value() || record->count >= newlines) return found;
    found = record;
  }
}

}  // namespace

absl::StatusOr<uint64_t> OffsetOfLastLines(const StreamSegments& stream, uint64_t lines) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, stream.List());
  ASSIGN_OR_RETURN(const StreamEnd end, EndOf(stream, segments));
  // The first requested line begins after `newlines` newlines.
  const uint64_t all = end.newlines + (end.has_open_line ? 1 : 0);
  if (all <= lines) return 0;
  const uint64_t newlines = all - lines;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    SegmentScan scan(stream.Open(*segment), kWindowBytes);
    ASSIGN_OR_RETURN(const auto record, RecordWith(scan, newlines));
    if (!record.has_value()) continue;
    const absl::StatusOr<std::string> body = scan.Body(*record);
    if (absl::IsDataLoss(body.status())) return record->EndOffset();
    RETURN_IF_ERROR(body.status());
    size_t at = 0;
    for (uint64_t left = newlines - record->count; left > 0 && at < body->size(); ++at) {
      if ((*body)[at] == '\n') --left;
    }
    return record->offset + at;
  }
  return 0;
}

}  // namespace muster::coordinator
