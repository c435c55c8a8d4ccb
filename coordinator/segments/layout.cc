#include "coordinator/segments/layout.h"

#include <algorithm>

#include "common/hash/crc32c.h"

namespace muster::coordinator {
namespace {

uint64_t ItemsIn(SegmentKind kind, std::string_view body) {
  if (kind == SegmentKind::kMetrics) return 1;
  return LinesIn(body);
}

}  // namespace

uint64_t LinesIn(std::string_view body) {
  constexpr size_t kBlock =
      128;  // the compiler makes vector instructions of a loop of fixed length
  uint64_t lines = 0;
  size_t at = 0;
  for (; at + kBlock <= body.size(); at += kBlock) {
    uint8_t here = 0;
    for (size_t i = 0; i < kBlock; ++i) here += body[at + i] == '\n';
    lines += here;
  }
  for (; at < body.size(); ++at) lines += body[at] == '\n';
  return lines;
}

SegmentLayout::SegmentLayout(const SegmentHead& begun)
    : head(begun),
      position(kRecordsBegin),
      end{.end_offset = begun.first_offset, .end_count = begun.first_count} {}

std::string SegmentLayout::HeadBytes() const {
  std::string bytes;
  for (size_t copy = 0; copy < kHeadCopies; ++copy) bytes += EncodeSegmentHead(head);
  return bytes;
}

RecordHead SegmentLayout::HeadOf(const NewRecord& record) const {
  return {.offset = record.offset,
          .dropped = record.dropped,
          .time_us = record.time_us,
          .count = end.end_count,
          .length = static_cast<uint32_t>(record.body.size()),
          .end = record.end,
          .removed = record.removed,
          .body_crc = common::Crc32c(record.body)};
}

void SegmentLayout::Count(const RecordHead& record, std::string_view body, uint64_t at) {
  // An empty record, such as the mark of the stream's end, has no time to be found by.
  if (record.length > 0) {
    const bool is_first = index.empty();
    end.first_us = is_first ? record.time_us : std::min(end.first_us, record.time_us);
    end.last_us = is_first ? record.time_us : std::max(end.last_us, record.time_us);
    if (is_first || record.offset >= index.back().offset + kIndexStepBytes) {
      index.push_back({record.offset, at, record.time_us, record.count});
    }
  }
  end.end_offset = record.EndOffset();
  end.end_count = record.count + ItemsIn(head.id.kind, body);
  end.ended = record.end;
}

void EndAtLeast(const SegmentTrailer& told, SegmentTrailer& end) {
  end.end_offset = std::max(end.end_offset, told.end_offset);
  end.end_count = std::max(end.end_count, told.end_count);
  end.ended = end.ended || told.ended;
}

std::string SegmentLayout::TailBytes() {
  const std::string encoded = EncodeIndex(index);
  end.index_position = position;
  end.entries = static_cast<uint32_t>(index.size());
  end.index_crc = common::Crc32c(encoded);
  return encoded + EncodeSegmentTrailer(end, head.salt) + EncodeSegmentHead(head);
}

}  // namespace muster::coordinator
