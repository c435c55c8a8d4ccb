#include "coordinator/segments/format.h"

#include <cstring>

#include "common/base/limits.h"
#include "common/hash/crc32c.h"

namespace muster::coordinator {
namespace {

constexpr std::string_view kHeadMark = "MSTRSEG1";
constexpr std::string_view kTrailerMark = "MSTREND1";
constexpr std::string_view kRecordMark = "MRec";
constexpr uint32_t kEndFlag = 1;
constexpr uint32_t kRemovedFlag = 2;
// A body arrives in a single message.
constexpr uint32_t kBodyBytesMax = common::kBulkMessageBytesMax + 64 * 1024;

// All little-endian, like the machine. Each ends with the CRC-32C of the bytes before it.
struct PackedHead {
  char mark[8];
  uint32_t kind;
  uint32_t attempt;
  uint64_t job;
  uint32_t rank;
  uint32_t stream;
  uint64_t first_offset;
  uint64_t first_count;
  uint64_t salt;
  uint32_t unused;
  uint32_t crc;
};
static_assert(sizeof(PackedHead) == kSegmentHeadBytes);

struct PackedRecord {
  char mark[4];
  uint32_t length;
  uint64_t offset;
  uint64_t dropped;
  int64_t time_us;
  uint64_t count;
  uint32_t flags;
  uint32_t body_crc;
  uint32_t unused;
  uint32_t crc;
};
static_assert(sizeof(PackedRecord) == kRecordHeadBytes);

struct PackedEntry {
  uint64_t offset;
  uint64_t position;
  int64_t time_us;
  uint64_t count;
};
static_assert(sizeof(PackedEntry) == kIndexEntryBytes);

struct PackedTrailer {
  char mark[8];
  uint64_t index_position;
  uint64_t end_offset;
  uint64_t end_count;
  int64_t first_us;
  int64_t last_us;
  uint32_t entries;
  uint32_t flags;
  uint32_t index_crc;
  uint32_t unused;
  uint32_t unused_too;
  uint32_t crc;
};
static_assert(sizeof(PackedTrailer) == kSegmentTrailerBytes);

template <typename Packed>
std::string_view RawBytes(const Packed& packed, size_t size = sizeof(Packed)) {
  return {reinterpret_cast<const char*>(&packed), size};
}

// The checksum covers `salt`, then the bytes.
template <typename Packed>
uint32_t CrcOf(const Packed& packed, uint64_t salt) {
  const uint32_t salted = common::Crc32c(RawBytes(salt));
  return common::Crc32c(RawBytes(packed, sizeof packed - sizeof packed.crc), salted);
}

// Fills in the two fields that the caller cannot know.
template <typename Packed>
std::string Sealed(Packed packed, std::string_view mark, uint64_t salt) {
  std::memcpy(packed.mark, mark.data(), sizeof packed.mark);
  packed.crc = CrcOf(packed, salt);
  return std::string(RawBytes(packed));
}

template <typename Packed>
bool Load(std::string_view bytes, std::string_view mark, Packed& packed) {
  if (bytes.size() < sizeof packed) return false;
  std::memcpy(&packed, bytes.data(), sizeof packed);
  return bytes.substr(0, mark.size()) == mark;
}

}  // namespace

std::string EncodeSegmentHead(const SegmentHead& head) {
  const PackedHead packed{.kind = static_cast<uint32_t>(head.id.kind),
                          .attempt = head.id.attempt,
                          .job = head.id.job,
                          .rank = head.id.rank,
                          .stream = head.id.stream,
                          .first_offset = head.first_offset,
                          .first_count = head.first_count,
                          .salt = head.salt};
  return Sealed(packed, kHeadMark, 0);
}

std::optional<SegmentHead> DecodeSegmentHead(std::string_view bytes) {
  PackedHead packed;
  if (!Load(bytes, kHeadMark, packed) || packed.crc != CrcOf(packed, 0) ||
      packed.first_offset > common::kLogStreamBytesMax) {
    return std::nullopt;
  }
  return SegmentHead{.id = {.kind = static_cast<SegmentKind>(packed.kind),
                            .job = packed.job,
                            .attempt = packed.attempt,
                            .rank = packed.rank,
                            .stream = packed.stream},
                     .first_offset = packed.first_offset,
                     .first_count = packed.first_count,
                     .salt = packed.salt};
}

std::string EncodeRecordHead(const RecordHead& head, uint64_t salt) {
  const PackedRecord packed{.length = head.length,
                            .offset = head.offset,
                            .dropped = head.dropped,
                            .time_us = head.time_us,
                            .count = head.count,
                            .flags = (head.end ? kEndFlag : 0) | (head.removed ? kRemovedFlag : 0),
                            .body_crc = head.body_crc};
  return Sealed(packed, kRecordMark, salt);
}

std::optional<RecordHead> DecodeRecordHead(std::string_view bytes, uint64_t salt) {
  PackedRecord packed;
  if (!Load(bytes, kRecordMark, packed) || packed.crc != CrcOf(packed, salt)) return std::nullopt;
  if (packed.offset > common::kLogStreamBytesMax || packed.dropped > packed.offset ||
      packed.length > kBodyBytesMax || packed.offset + packed.length > common::kLogStreamBytesMax) {
    return std::nullopt;
  }
  return RecordHead{.offset = packed.offset,
                    .dropped = packed.dropped,
                    .time_us = packed.time_us,
                    .count = packed.count,
                    .length = packed.length,
                    .end = (packed.flags & kEndFlag) != 0,
                    .removed = (packed.flags & kRemovedFlag) != 0,
                    .body_crc = packed.body_crc};
}

std::string EncodeIndex(const std::vector<IndexEntry>& entries) {
  std::string bytes;
  bytes.reserve(entries.size() * kIndexEntryBytes);
  for (const IndexEntry& entry : entries) {
    bytes += RawBytes(PackedEntry{entry.offset, entry.position, entry.time_us, entry.count});
  }
  return bytes;
}

std::optional<std::vector<IndexEntry>> DecodeIndex(std::string_view bytes,
                                                   const SegmentTrailer& trailer) {
  if (bytes.size() != trailer.entries * kIndexEntryBytes ||
      common::Crc32c(bytes) != trailer.index_crc) {
    return std::nullopt;
  }
  std::vector<IndexEntry> entries;
  for (; !bytes.empty(); bytes.remove_prefix(kIndexEntryBytes)) {
    PackedEntry packed;
    std::memcpy(&packed, bytes.data(), sizeof packed);
    if (packed.position < kRecordsBegin || packed.position > trailer.index_position) {
      return std::nullopt;
    }
    entries.push_back({packed.offset, packed.position, packed.time_us, packed.count});
  }
  return entries;
}

std::string EncodeSegmentTrailer(const SegmentTrailer& trailer, uint64_t salt) {
  const PackedTrailer packed{.index_position = trailer.index_position,
                             .end_offset = trailer.end_offset,
                             .end_count = trailer.end_count,
                             .first_us = trailer.first_us,
                             .last_us = trailer.last_us,
                             .entries = trailer.entries,
                             .flags = trailer.ended ? kEndFlag : 0,
                             .index_crc = trailer.index_crc};
  return Sealed(packed, kTrailerMark, salt);
}

std::optional<SegmentTrailer> DecodeSegmentTrailer(std::string_view bytes, uint64_t salt) {
  PackedTrailer packed;
  if (!Load(bytes, kTrailerMark, packed) || packed.crc != CrcOf(packed, salt) ||
      packed.end_offset > common::kLogStreamBytesMax) {
    return std::nullopt;
  }
  return SegmentTrailer{.index_position = packed.index_position,
                        .end_offset = packed.end_offset,
                        .end_count = packed.end_count,
                        .first_us = packed.first_us,
                        .last_us = packed.last_us,
                        .entries = packed.entries,
                        .ended = (packed.flags & kEndFlag) != 0,
                        .index_crc = packed.index_crc};
}

size_t FindRecordMark(std::string_view bytes, size_t from) { return bytes.find(kRecordMark, from); }

}  // namespace muster::coordinator
