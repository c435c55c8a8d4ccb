// How readers access the segments of a stream, wherever they are stored: in files, as objects of a store, in
// memory. Readers request bytes in pieces of some KiB; decoders see a window of plain memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator {

// The bytes of one segment.
class SegmentBytes {
 public:
  struct Piece {
    std::string bytes;
    uint64_t total = 0;  // of the segment
    uint64_t identity =
        0;  // of the segment's bytes; changes if the segment is replaced; 0: there is no segment
  };
  virtual ~SegmentBytes() = default;
  // `size` bytes from `position` on, fewer at the end. A missing segment is empty. Each call sees the current
  // bytes, and keeps nothing open.
  virtual absl::StatusOr<Piece> Read(uint64_t position, size_t size) = 0;
  // For people: its path.
  virtual std::string Name() const = 0;
};

// The segments of one stream.
class StreamSegments {
 public:
  virtual ~StreamSegments() = default;
  // The stream offsets where they begin, in order.
  virtual absl::StatusOr<std::vector<uint64_t>> List() const = 0;
  // Never null; a missing segment is empty.
  virtual std::unique_ptr<SegmentBytes> Open(uint64_t first_offset) const = 0;
};

// A segment seen through a window of bytes, which is reread when it does not cover a request.
class ByteWindow {
 public:
  // `bytes`: how much is read at a time, at least.
  ByteWindow(std::unique_ptr<SegmentBytes> source, size_t bytes)
      : source_(std::move(source)), bytes_(bytes) {}

  // At most `size` bytes from `position` on, fewer at the end of the segment or of what is known to
  // be there; valid until the next call.
  absl::StatusOr<std::string_view> At(uint64_t position, size_t size);
  // Discards the window, because its bytes may have been only partly written when they were read.
  void Forget();
  // Whether the last answer came from the window, without reading.
  bool WasKnown() const { return was_known_; }
  // As of the last read.
  uint64_t TotalBytes() const { return total_; }
  uint64_t Identity() const { return identity_; }
  std::string Name() const { return source_->Name(); }
  size_t Bytes() const { return bytes_; }

 private:
  std::unique_ptr<SegmentBytes> source_;
  size_t bytes_;
  std::string window_;
  uint64_t begin_ = 0;
  uint64_t total_ = 0;
  uint64_t identity_ = 0;
  bool was_known_ = false;
};

}  // namespace muster::coordinator
