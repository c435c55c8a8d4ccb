// The bytes of a segment: one format for everything that grows on the coordinator's disk, ranks'
// output and metrics alike. Pure. docs/formats.md has the layout.
//
// A segment is a self-contained part of one stream of records: which stream it belongs to, records
// with a checksum each, and, once it is full or the stream has ended, an index and a trailer. After
// that it never changes. A record head's checksum covers a random number of the segment, so that
// bytes printed by a rank are never mistaken for a record, whatever is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::coordinator {

enum class SegmentKind : uint32_t { kLog = 1, kMetrics = 2 };

// Which stream a segment belongs to. Metrics have one stream per attempt: rank and stream are 0.
struct SegmentId {
  SegmentKind kind = SegmentKind::kLog;
  uint64_t job = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  uint32_t stream = 0;  // v1::LogStream
  auto operator<=>(const SegmentId&) const = default;
};

struct SegmentHead {
  SegmentId id;
  uint64_t first_offset = 0;  // of the stream: where this segment begins
  uint64_t first_count = 0;   // items before it
  uint64_t salt = 0;          // random
};

// Bytes [offset, offset + length) of the stream follow it.
struct RecordHead {
  uint64_t offset = 0;
  uint64_t dropped = 0;  // how many bytes just before `offset` were never received
  int64_t time_us = 0;
  // Items (lines of a log, batches of metrics) of the stream before this record.
  uint64_t count = 0;
  uint32_t length = 0;
  bool end = false;      // nothing follows in the stream
  bool removed = false;  // the dropped bytes had been stored, and were removed for a quota (trim.h)
  uint32_t body_crc = 0;

  uint64_t EndOffset() const { return offset + length; }
};

// The position of one record for every 64 KiB of a stream: the index of a finished segment.
struct IndexEntry {
  uint64_t offset = 0;
  uint64_t position = 0;  // in the file
  int64_t time_us = 0;
  uint64_t count = 0;
};

struct SegmentTrailer {
  uint64_t index_position = 0;  // in the file: after the last record
  uint64_t end_offset = 0;
  uint64_t end_count = 0;
  int64_t first_us = 0;  // the earliest and the latest time of a record
  int64_t last_us = 0;
  uint32_t entries = 0;
  bool ended = false;  // the stream ends here
  uint32_t index_crc = 0;
};

inline constexpr uint64_t kSegmentBytesMax = 8 << 20;  // a file of this size gets no more records
// If a job has a smaller quota, its segments are smaller, but never smaller than this.
inline constexpr uint64_t kSegmentBytesMin = 64 << 10;
// No segment is longer, so one can be rebuilt in memory.
inline constexpr uint64_t kSegmentFileBytesMax = 4 * kSegmentBytesMax;
inline constexpr uint64_t kIndexStepBytes = 64 << 10;
inline constexpr size_t kSegmentHeadBytes = 64;
inline constexpr size_t kHeadCopies = 2;
inline constexpr size_t kRecordsBegin = kHeadCopies * kSegmentHeadBytes;
inline constexpr size_t kRecordHeadBytes = 56;
inline constexpr size_t kIndexEntryBytes = 32;
inline constexpr size_t kSegmentTrailerBytes = 72;
// After the index: the trailer, then another copy of the head.
inline constexpr size_t kSegmentTailBytes = kSegmentTrailerBytes + kSegmentHeadBytes;

std::string EncodeSegmentHead(const SegmentHead& head);
std::string EncodeRecordHead(const RecordHead& head, uint64_t salt);
std::string EncodeIndex(const std::vector<IndexEntry>& entries);
std::string EncodeSegmentTrailer(const SegmentTrailer& trailer, uint64_t salt);

// nullopt: torn, damaged, or out of range (limits.h), even if the checksum matches.
std::optional<SegmentHead> DecodeSegmentHead(std::string_view bytes);
std::optional<RecordHead> DecodeRecordHead(std::string_view bytes, uint64_t salt);
std::optional<std::vector<IndexEntry>> DecodeIndex(std::string_view bytes,
                                                   const SegmentTrailer& trailer);
std::optional<SegmentTrailer> DecodeSegmentTrailer(std::string_view bytes, uint64_t salt);

// Where a record head may begin at or after `from`, judging by its first bytes; npos: nowhere.
size_t FindRecordMark(std::string_view bytes, size_t from);

}  // namespace muster::coordinator
