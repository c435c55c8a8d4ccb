#include "coordinator/segments/trim.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/crc32c.h"
#include "common/text/strings.h"
#include "coordinator/segments/scan.h"

namespace muster::coordinator {
namespace {

constexpr size_t kTailWindowBytes = 4 << 10;

absl::Status Unlink(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return common::ErrnoStatus(common::StrCat("cannot remove ", path));
}

// A whole segment of one record without bytes.
std::string StandIn(const SegmentId& id, uint64_t salt, const FinishedSegment& last) {
  const SegmentHead head{.id = id, .salt = salt};
  const RecordHead record{.offset = last.end_offset,
                          .dropped = last.end_offset,
                          .time_us = last.last_us,
                          .count = last.end_count,
                          .end = last.has_end,
                          .removed = true,
                          .body_crc = common::Crc32c({})};
  const std::string index = EncodeIndex({});
  std::string bytes;
  for (size_t copy = 0; copy < kHeadCopies; ++copy) bytes += EncodeSegmentHead(head);
  bytes += EncodeRecordHead(record, salt);
  const SegmentTrailer trailer{.index_position = bytes.size(),
                               .end_offset = last.end_offset,
                               .end_count = last.end_count,
                               .first_us = last.last_us,
                               .last_us = last.last_us,
                               .ended = last.has_end,
                               .index_crc = common::Crc32c(index)};
  return bytes + index + EncodeSegmentTrailer(trailer, salt) + EncodeSegmentHead(head);
}

}  // namespace

absl::StatusOr<std::vector<FinishedSegment>> FinishedSegments(const SegmentFiles& files) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, files.List());
  std::vector<FinishedSegment> finished;
  for (const uint64_t first_offset : segments) {
    SegmentScan scan(files.Open(first_offset), kTailWindowBytes);
    ASSIGN_OR_RETURN(const auto trailer, scan.Trailer());
    if (!trailer.has_value()) break;
    const int64_t before_us = finished.empty() ? trailer->last_us : finished.back().last_us;
    finished.push_back({.first_offset = first_offset,
                        .end_offset = trailer->end_offset,
                        .end_count = trailer->end_count,
                        .bytes = scan.TotalBytes(),
                        .last_us = std::max(trailer->last_us, before_us),
                        .has_end = trailer->ended});
  }
  return finished;
}

absl::Status RemoveUntil(const SegmentFiles& files, const SegmentId& id,
                         const FinishedSegment& last) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, files.List());
  ASSIGN_OR_RETURN(const uint64_t salt, RandomSalt());
  const std::string stand_in = StandIn(id, salt, last);
  absl::Status written = common::WriteFileDurably(files.At(0), stand_in);
  if (absl::IsResourceExhausted(written) && last.first_offset != 0) {
    // If there is no room for the record, first remove the segment that it replaces.
    RETURN_IF_ERROR(Unlink(files.At(last.first_offset)));
    written = common::WriteFileDurably(files.At(0), stand_in);
  }
  RETURN_IF_ERROR(written);
  for (const uint64_t first_offset : segments) {
    if (first_offset == 0 || first_offset >= last.end_offset) continue;
    RETURN_IF_ERROR(Unlink(files.At(first_offset)));
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
