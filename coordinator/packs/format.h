// The bytes of a pack: a directory, then the segments (coordinator/segments/format.h) that it names. Pure.
// docs/formats.md has the layout.
//
// The directory names all streams that its lane has so far, also those without bytes here, with where they end: so a
// lane's last pack is enough to continue it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/segments/buffer.h"
#include "coordinator/segments/format.h"
#include "coordinator/stores/pack_names.h"

namespace muster::coordinator {

// Of a lane: rank and output (v1::LogStream). Metrics have one, {0, 0}.
using PackStream = std::pair<uint32_t, uint32_t>;

struct PackSegment {
  PackStream stream;
  uint64_t first_offset = 0;  // of the stream: where the segment begins
  uint64_t end_offset = 0;
  uint64_t end_count = 0;  // items of the stream up to there
  uint64_t position = 0;   // in the pack
  uint64_t length = 0;     // 0: the stream has no bytes in this pack
  bool ended = false;      // nothing follows in the stream
};

struct PackDirectory {
  PackLane lane;  // the node is not in the pack
  // In order of streams, and of offsets within one.
  std::vector<PackSegment> segments;
};

inline constexpr size_t kPackHeadBytes = 40;
inline constexpr size_t kPackSegmentBytes = 56;
// limit: packs: entries of a directory; DATA_LOSS if one is read that has more
inline constexpr uint32_t kPackSegmentsMax = 65'536;

// How long the directory is. Its segments' positions begin there.
inline size_t PackDirectoryBytes(size_t segments) {
  return kPackHeadBytes + segments * kPackSegmentBytes;
}
std::string EncodePackDirectory(const PackDirectory& directory);

// How long the directory is, by the pack's first kPackHeadBytes. DATA_LOSS: it is not a pack, or damaged.
absl::StatusOr<size_t> PackDirectoryBytesOf(std::string_view head);
// Of that many bytes. DATA_LOSS likewise, or out of range.
absl::StatusOr<PackDirectory> DecodePackDirectory(std::string_view bytes);

// Where a stream ends.
struct StreamEnd {
  uint64_t offset = 0;
  uint64_t count = 0;
  bool ended = false;
};
// Of all streams that the lane has.
std::map<PackStream, StreamEnd> StreamEnds(const PackDirectory& directory);

// The entry of a stream that ends there and has no bytes in the pack.
PackSegment WithoutBytes(PackStream stream, const StreamEnd& end);
// The entry of this segment; its position is not known yet.
PackSegment EntryOf(const SegmentBuffer& segment);
// The id that the stream's segments have.
SegmentId SegmentIdOf(const PackLane& lane, PackStream stream);

}  // namespace muster::coordinator
