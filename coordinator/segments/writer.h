// Appends records to one stream, stored in one or more segments. The store's thread only.
//
// Opening recovers record by record: a torn end is cut off, and damage before it is remembered as
// lost until its sender resends it (Restore) or cannot (GiveUp). Sound data is never discarded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "coordinator/segments/files.h"
#include "coordinator/segments/format.h"
#include "coordinator/segments/layout.h"

namespace muster::coordinator {

// Bytes [from, until) of a stream.
struct LostRange {
  uint64_t from = 0;
  uint64_t until = 0;
};

class SegmentWriter {
 public:
  // Creates the first segment, or opens the last one and recovers it.
  static absl::StatusOr<SegmentWriter> Open(SegmentFiles files, const SegmentId& id);
  // Releases the descriptor but remembers the file's state; nothing may be dirty.
  void Close() { fd_.Reset(); }
  bool IsOpen() const { return fd_.valid(); }
  // Call it when the file failed. Data that was not synced does not count as written: after a
  // failed sync, the kernel forgets that it has not written the data.
  void Fail();
  bool HasFailed() const { return has_failed_; }
  // After Close or Fail. NOT_FOUND: the file is gone. A file that failed is replaced by a new one
  // with the synced data.
  absl::Status Reopen();

  // In ascending order, from Written on; the last one may end the stream. All or nothing: after an
  // error the next call writes the same place again. RESOURCE_EXHAUSTED, UNAVAILABLE: the same call
  // may be repeated. OUT_OF_RANGE: no file can be that long here. A segment that has `bytes_max`
  // gets no more of them.
  absl::Status Append(const std::vector<NewRecord>& records, uint64_t bytes_max = kSegmentBytesMax);
  absl::Status Sync();
  // After the caller's syncfs.
  void MarkSynced();

  uint64_t Written() const { return at_.end.end_offset; }
  // Everything below is durable and can be read.
  uint64_t Durable() const;
  // Where the stream ends.
  const SegmentTrailer& End() const { return at_.end; }
  // Nothing is appended here any more, the stream continues elsewhere: readers of this segment pass on.
  absl::Status FinishSegment() { return finished_ ? Sync() : Finish(); }
  // The stream has its end: nothing may be appended.
  bool HasEnd() const { return at_.end.ended; }
  bool Dirty() const { return dirty_; }
  int Descriptor() const { return fd_.get(); }

  // Ranges of the last segment that were found damaged and may be resent.
  const std::vector<LostRange>& Lost() const { return lost_; }
  // Rewrites the segment with these records, which lie in lost ranges. Afterwards nothing up to
  // `until` counts as lost.
  absl::Status Restore(const std::vector<NewRecord>& records, uint64_t until);
  // The sender no longer has the bytes below `offset`: they stay lost.
  void GiveUp(uint64_t offset);

  // For a stream that has no writer: rewrites the segment with its sound records; lost ones remain
  // a gap. A segment whose head cannot be read is renamed to FILE.damaged.
  static absl::Status Mend(SegmentFiles files, const SegmentId& id, uint64_t first_offset);

 private:
  using Bodies = std::map<uint64_t, std::vector<std::pair<NewRecord, std::string>>>;
  // Of the file: how far it was written.
  struct State {
    uint64_t position = 0;
    size_t entries = 0;
    SegmentTrailer end;
    bool finished = false;
  };

  State Now() const { return {at_.position, at_.index.size(), at_.end, finished_}; }
  void GoBackTo(const State& state);

  absl::Status Start(uint64_t first_offset);
  absl::Status Recover(uint64_t first_offset);
  absl::Status OpenFile(int flags);
  std::string Path() const { return files_.At(at_.head.first_offset); }
  absl::StatusOr<Bodies> SoundRecords(const std::vector<NewRecord>& records) const;
  absl::StatusOr<uint64_t> CountBefore(uint64_t first_offset) const;
  absl::Status Finish();
  absl::Status StartNext();

  SegmentFiles files_{""};
  SegmentLayout at_;
  common::UniqueFd fd_;
  std::vector<LostRange> lost_;
  uint64_t durable_ = 0;
  bool finished_ = false;  // the file has its index and trailer
  bool dirty_ = false;
  State synced_;  // as of the last sync, or as it was found
  bool has_failed_ = false;
};

}  // namespace muster::coordinator
