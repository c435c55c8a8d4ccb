#include "coordinator/packs/open_pack.h"

#include <algorithm>

#include "common/base/status.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {

absl::Status OpenPack::Append(PackStream stream, const std::vector<NewRecord>& records,
                              StreamEnd& end) {
  std::lock_guard lock(mutex_);
  auto found = segments_.find(stream);
  if (found == segments_.end()) {
    Segment fresh;
    SegmentHead& head = fresh.layout.head;
    head.id = {.kind = lane_.kind == PackKind::kLogs ? SegmentKind::kLog : SegmentKind::kMetrics,
               .job = lane_.job,
               .attempt = lane_.attempt,
               .rank = stream.first,
               .stream = stream.second};
    head.first_offset = end.offset;
    head.first_count = end.count;
    ASSIGN_OR_RETURN(head.salt, RandomSalt());
    fresh.layout.end = {.end_offset = end.offset, .end_count = end.count};
    fresh.bytes = fresh.layout.HeadBytes();
    fresh.layout.position = fresh.bytes.size();
    bytes_ += fresh.bytes.size();
    found = segments_.emplace(stream, std::move(fresh)).first;
  }
  auto& [layout, bytes] = found->second;
  const size_t before = bytes.size();
  for (const NewRecord& record : records) {
    const RecordHead head = layout.HeadOf(record);
    bytes += EncodeRecordHead(head, layout.head.salt);
    bytes += record.body;
    layout.Count(head, record.body, layout.position);
    layout.position = bytes.size();
  }
  bytes_ += bytes.size() - before;
  end = {layout.end.end_offset, layout.end.end_count, layout.end.ended};
  return absl::OkStatus();
}

std::string OpenPack::Seal(const std::map<PackStream, StreamEnd>& ends) {
  std::lock_guard lock(mutex_);
  PackDirectory directory{.lane = lane_, .segments = {}};
  uint64_t position = PackDirectoryBytes(ends.size());
  for (const auto& [stream, end] : ends) {
    PackSegment entry{.stream = stream,
                      .first_offset = end.offset,
                      .end_offset = end.offset,
                      .end_count = end.count,
                      .position = 0,
                      .length = 0,
                      .ended = end.ended};
    if (const auto here = segments_.find(stream); here != segments_.end()) {
      auto& [layout, bytes] = here->second;
      bytes += layout.TailBytes();
      entry.first_offset = layout.head.first_offset;
      entry.position = position;
      entry.length = bytes.size();
      position += bytes.size();
    }
    directory.segments.push_back(entry);
  }
  std::string pack = EncodePackDirectory(directory);
  pack.reserve(position);
  for (const auto& [stream, segment] : segments_) pack += segment.bytes;
  return pack;
}

size_t OpenPack::Bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

std::optional<uint64_t> OpenPack::FirstOffset(PackStream stream) const {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(stream);
  if (found == segments_.end()) return std::nullopt;
  return found->second.layout.head.first_offset;
}

std::vector<PackStream> OpenPack::Streams() const {
  std::lock_guard lock(mutex_);
  std::vector<PackStream> streams;
  for (const auto& [stream, segment] : segments_) streams.push_back(stream);
  return streams;
}

SegmentBytes::Piece OpenPack::Read(PackStream stream, uint64_t position, size_t size) const {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(stream);
  if (found == segments_.end()) return {};
  const auto& [layout, bytes] = found->second;
  SegmentBytes::Piece piece{.bytes = {}, .total = bytes.size(), .identity = layout.head.salt | 1};
  if (position < bytes.size()) piece.bytes = bytes.substr(position, size);
  return piece;
}

}  // namespace muster::coordinator
