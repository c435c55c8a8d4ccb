#include "coordinator/packs/format.h"

#include <cstring>

#include "common/base/status.h"
#include "common/hash/crc32c.h"

namespace muster::coordinator {
namespace {

constexpr char kPackMark[8] = {'M', 'S', 'T', 'R', 'P', 'A', 'K', '1'};
constexpr uint32_t kStreamEndedFlag = 1;
// No offset or position is larger: sums of two do not overflow.
constexpr uint64_t kOffsetMax = uint64_t{1} << 62;

// All little-endian, like the machine.
struct DirectoryHead {
  char mark[8];
  uint64_t job;
  uint32_t attempt;
  uint32_t kind;
  uint32_t segments;
  uint32_t table_crc;
  uint32_t unused;
  uint32_t crc;  // of what is before it
};
static_assert(sizeof(DirectoryHead) == kPackHeadBytes);

struct DirectoryEntry {
  uint32_t rank;
  uint32_t stream;
  uint64_t first_offset;
  uint64_t end_offset;
  uint64_t end_count;
  uint64_t position;
  uint64_t length;
  uint32_t flags;
  uint32_t unused;
};
static_assert(sizeof(DirectoryEntry) == kPackSegmentBytes);

template <typename Packed>
std::string_view BytesOfStruct(const Packed& packed, size_t size = sizeof(Packed)) {
  return {reinterpret_cast<const char*>(&packed), size};
}

absl::Status DirectoryDamaged(const char* why) {
  return absl::DataLossError(std::string("a pack's directory ") + why);
}

absl::StatusOr<DirectoryHead> DecodeHead(std::string_view bytes) {
  DirectoryHead head;
  if (bytes.size() < sizeof head) return DirectoryDamaged("is cut off");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.mark, kPackMark, sizeof kPackMark) != 0)
    return DirectoryDamaged("has no mark");
  if (head.crc != common::Crc32c(BytesOfStruct(head, offsetof(DirectoryHead, crc))))
    return DirectoryDamaged("has a wrong checksum");
  if (head.segments > kPackSegmentsMax) return DirectoryDamaged("has too many entries");
  if (head.kind != static_cast<uint32_t>(PackKind::kLogs) &&
      head.kind != static_cast<uint32_t>(PackKind::kMetrics)) {
    return DirectoryDamaged("is of an unknown kind");
  }
  return head;
}

}  // namespace

std::string EncodePackDirectory(const PackDirectory& directory) {
  std::string table;
  table.reserve(directory.segments.size() * kPackSegmentBytes);
  for (const PackSegment& segment : directory.segments) {
    table += BytesOfStruct(DirectoryEntry{.rank = segment.stream.first,
                                          .stream = segment.stream.second,
                                          .first_offset = segment.first_offset,
                                          .end_offset = segment.end_offset,
                                          .end_count = segment.end_count,
                                          .position = segment.position,
                                          .length = segment.length,
                                          .flags = segment.ended ? kStreamEndedFlag : 0,
                                          .unused = 0});
  }
  DirectoryHead head{.mark = {},
                     .job = directory.lane.job,
                     .attempt = directory.lane.attempt,
                     .kind = static_cast<uint32_t>(directory.lane.kind),
                     .segments = static_cast<uint32_t>(directory.segments.size()),
                     .table_crc = common::Crc32c(table),
                     .unused = 0,
                     .crc = 0};
  std::memcpy(head.mark, kPackMark, sizeof kPackMark);
  head.crc = common::Crc32c(BytesOfStruct(head, offsetof(DirectoryHead, crc)));
  std::string bytes(BytesOfStruct(head));
  bytes += table;
  return bytes;
}

absl::StatusOr<size_t> PackDirectoryBytesOf(std::string_view head) {
  ASSIGN_OR_RETURN(const DirectoryHead decoded, DecodeHead(head));
  return PackDirectoryBytes(decoded.segments);
}

absl::StatusOr<PackDirectory> DecodePackDirectory(std::string_view bytes) {
  ASSIGN_OR_RETURN(const DirectoryHead head, DecodeHead(bytes));
  const size_t size = PackDirectoryBytes(head.segments);
  if (bytes.size() < size) return DirectoryDamaged("is cut off");
  const std::string_view table = bytes.substr(kPackHeadBytes, size - kPackHeadBytes);
  if (head.table_crc != common::Crc32c(table)) return DirectoryDamaged("has a wrong checksum");
  PackDirectory directory{.lane = {.kind = static_cast<PackKind>(head.kind),
                                   .job = head.job,
                                   .attempt = head.attempt,
                                   .node = {}},
                          .segments = {}};
  directory.segments.reserve(head.segments);
  for (uint32_t i = 0; i < head.segments; ++i) {
    DirectoryEntry packed;
    std::memcpy(&packed, table.data() + i * sizeof packed, sizeof packed);
    if (packed.first_offset > packed.end_offset || packed.end_offset > kOffsetMax ||
        packed.end_count > kOffsetMax || packed.position > kOffsetMax ||
        packed.length > kOffsetMax) {
      return DirectoryDamaged("is out of range");
    }
    const PackSegment segment{.stream = {packed.rank, packed.stream},
                              .first_offset = packed.first_offset,
                              .end_offset = packed.end_offset,
                              .end_count = packed.end_count,
                              .position = packed.position,
                              .length = packed.length,
                              .ended = (packed.flags & kStreamEndedFlag) != 0};
    if (!directory.segments.empty()) {
      const PackSegment& before = directory.segments.back();
      if (std::pair(before.stream, before.first_offset) >=
          std::pair(segment.stream, segment.first_offset)) {
        return DirectoryDamaged("is not in order");
      }
    }
    directory.segments.push_back(segment);
  }
  return directory;
}

std::map<PackStream, StreamEnd> StreamEnds(const PackDirectory& directory) {
  std::map<PackStream, StreamEnd> ends;
  // The last one of a stream stays.
  for (const PackSegment& segment : directory.segments)
    ends[segment.stream] = {segment.end_offset, segment.end_count, segment.ended};
  return ends;
}

PackSegment WithoutBytes(PackStream stream, const StreamEnd& end) {
  return {.stream = stream,
          .first_offset = end.offset,
          .end_offset = end.offset,
          .end_count = end.count,
          .ended = end.ended};
}

PackSegment EntryOf(const SegmentBuffer& segment) {
  const SegmentHead& head = segment.layout().head;
  const SegmentTrailer& end = segment.layout().end;
  return {.stream = {head.id.rank, head.id.stream},
          .first_offset = head.first_offset,
          .end_offset = end.end_offset,
          .end_count = end.end_count,
          .length = segment.bytes().size(),
          .ended = end.ended};
}

SegmentId SegmentIdOf(const PackLane& lane, PackStream stream) {
  return {.kind = lane.kind == PackKind::kLogs ? SegmentKind::kLog : SegmentKind::kMetrics,
          .job = lane.job,
          .attempt = lane.attempt,
          .rank = stream.first,
          .stream = stream.second};
}

}  // namespace muster::coordinator
