#include "coordinator/packs/open_pack.h"

#include "common/base/status.h"

namespace muster::coordinator {

absl::Status OpenPack::Append(PackStream stream, const std::vector<NewRecord>& records,
                              StreamEnd& end) {
  std::lock_guard lock(mutex_);
  auto found = segments_.find(stream);
  const size_t before = found == segments_.end() ? 0 : found->second.bytes().size();
  if (found == segments_.end()) {
    ASSIGN_OR_RETURN(SegmentBuffer fresh,
                     SegmentBuffer::Begin(SegmentIdOf(lane_, stream), end.offset, end.count));
    found = segments_.emplace(stream, std::move(fresh)).first;
  }
  SegmentBuffer& segment = found->second;
  for (const NewRecord& record : records) segment.Add(record);
  bytes_ += segment.bytes().size() - before;
  const SegmentTrailer& reached = segment.layout().end;
  end = {reached.end_offset, reached.end_count, reached.ended};
  return absl::OkStatus();
}

std::string OpenPack::Seal(const std::map<PackStream, StreamEnd>& ends) {
  std::lock_guard lock(mutex_);
  PackDirectory directory{.lane = lane_, .segments = {}};
  uint64_t position = PackDirectoryBytes(ends.size());
  for (const auto& [stream, end] : ends) {
    const auto here = segments_.find(stream);
    if (here == segments_.end()) {
      directory.segments.push_back(WithoutBytes(stream, end));
      continue;
    }
    here->second.Finish();
    PackSegment& entry = directory.segments.emplace_back(EntryOf(here->second));
    entry.position = position;
    position += entry.length;
  }
  std::string pack = EncodePackDirectory(directory);
  pack.reserve(position);
  for (const auto& [stream, segment] : segments_) pack += segment.bytes();
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
  return found->second.layout().head.first_offset;
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
  const std::string& bytes = found->second.bytes();
  SegmentBytes::Piece piece{
      .bytes = {}, .total = bytes.size(), .identity = found->second.layout().head.salt | 1};
  if (position < bytes.size()) piece.bytes = bytes.substr(position, size);
  return piece;
}

}  // namespace muster::coordinator
