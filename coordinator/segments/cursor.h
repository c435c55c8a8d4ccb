// Reads one stream, segment by segment, while it may still grow. Keeps nothing open between calls.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "coordinator/segments/scan.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

struct StreamRecord : ScannedRecord {
  uint64_t damaged = 0;  // how many of the bytes just before it were stored but cannot be read
};

class SegmentCursor {
 public:
  // kFew: there are many cursors, and each is read in small steps. kAll: reads far ahead.
  enum class Appetite { kFew, kAll };

  // Holds a whole record of the largest chunk, which is then read once.
  static constexpr size_t kLargeWindowBytes = common::kLogChunkBytesMax + (8 << 10);

  // From the stream's `offset` on. `window_bytes`: how far kAll reads ahead.
  SegmentCursor(std::shared_ptr<const StreamSegments> segments, uint64_t offset, Appetite appetite,
                size_t window_bytes = kLargeWindowBytes);

  // The next record that ends after the requested offset or carries the end of the stream; null:
  // nothing more for now. Valid until the next call.
  absl::StatusOr<const StreamRecord*> Peek();
  // The body of that record. DATA_LOSS: damaged. UNAVAILABLE: call Peek again.
  absl::StatusOr<std::string> Body();
  // Appends that body without its first `skip` bytes to `bytes`. On error nothing is added.
  absl::Status AppendBody(size_t skip, std::string* bytes);
  // Frees what was read ahead.
  void Forget() {
    if (scan_ != nullptr) scan_->Forget();
  }
  // Moves past that record.
  void Advance();
  // Bytes at the end that are not records: damaged, unless the stream is being written to now.
  uint64_t UnreadableBytes() const;

 private:
  absl::Status Open(uint64_t segment);
  // Opens the segment that contains from_, or the first one after it. False: there is none.
  absl::StatusOr<bool> OpenFirst();
  // Moves to the next segment, if there is one. True: look again.
  absl::StatusOr<bool> PassOn();
  // Fills ready_ with adjacent records. False: nothing more in this segment.
  absl::StatusOr<bool> FillFromSegment();
  void Take(const ScannedRecord& record);
  // Reports what a finished segment lost at its end.
  void TakeLostEnd(const SegmentTrailer& trailer);
  // The segment was rewritten with the records that it had lost (writer.h), so the records have
  // moved.
  bool WasReplaced() const { return identity_ != 0 && scan_->Identity() != identity_; }
  void StartOver();
  // Called when something has changed: a quota may have removed the segment that is read (trim.h), and a file
  // may have the identity of an older one. False: starting over was already tried at this position.
  bool StartOverOnce();

  // True if it is another segment now, or gone. Reads the segment, so call it only if something is
  // wrong already.
  bool IsRewritten();
  bool IsDoubtful() const;

  const std::shared_ptr<const StreamSegments> segments_;
  const Appetite appetite_;
  const size_t window_bytes_;
  uint64_t from_;      // everything before it was taken
  uint64_t expected_;  // where the next record begins if nothing is missing
  std::unique_ptr<SegmentScan> scan_;
  uint64_t segment_ = 0;  // where it begins
  uint64_t identity_ = 0;
  std::optional<uint64_t> started_over_at_;
  bool has_next_ = false;  // a segment after this one was seen
  bool has_end_ = false;   // a record taken so far carries the stream's end
  std::deque<StreamRecord> ready_;
};

}  // namespace muster::coordinator
