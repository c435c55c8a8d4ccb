// Reads one segment record by record, while it may still grow. Damage costs only the records
// it hits: reading continues at the next sound head. Keeps nothing open between calls.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/segments/format.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

struct ScannedRecord : RecordHead {
  uint64_t position = 0;  // of its head
};

class SegmentScan {
 public:
  SegmentScan(std::unique_ptr<SegmentBytes> segment, size_t window_bytes)
      : window_(std::move(segment), window_bytes) {}

  // Which stream the segment belongs to. nullopt: it is missing or empty, or all copies of
  // the head are damaged.
  absl::StatusOr<std::optional<SegmentHead>> Head();
  // nullopt: it may still grow, or its end is damaged.
  absl::StatusOr<std::optional<SegmentTrailer>> Trailer();
  // Whether a finished segment's index can be used; without it, reading starts at the beginning.
  absl::StatusOr<bool> HasSoundIndex();
  // Continues at the last record whose index entry meets `is_before`, which is true up to some
  // place in the segment and false after it. A growing segment has no index yet: then continues at
  // a record up to 64 KiB before that place, found by bisection.
  template <typename IsBefore>
  absl::Status SeekBefore(const IsBefore& is_before);
  // Continues at the first sound record that begins at or after this position of the segment.
  absl::Status SeekTo(uint64_t position);

  // The next record with a sound head, skipping what is damaged. nullopt: nothing more for now.
  absl::StatusOr<std::optional<ScannedRecord>> Next();
  // The body of a record. DATA_LOSS: damaged.
  absl::StatusOr<std::string> Body(const ScannedRecord& record);
  // The same; valid until the next call.
  absl::StatusOr<std::string_view> BodyView(const ScannedRecord& record);
  // The next record whose body is sound too, with the body.
  absl::StatusOr<std::optional<std::pair<ScannedRecord, std::string>>> NextSound();
  // Where the record that Next returned last ends.
  uint64_t Position() const { return position_; }
  // Bytes after it, up to the end of the records, that contain no sound head.
  uint64_t UnreadableBytes() const;
  // True if no trailer was found so far and everything in the segment could be read.
  bool MayGrow() const {
    return head_.has_value() && !trailer_.has_value() && UnreadableBytes() == 0;
  }
  // The trailer that was found, if any.
  const std::optional<SegmentTrailer>& SeenTrailer() const { return trailer_; }
  // Frees the window; the next call reads again.
  void Forget() { window_.Forget(); }
  // As of the last read.
  uint64_t Identity() const { return window_.Identity(); }
  uint64_t TotalBytes() const { return window_.TotalBytes(); }
  // Where the records end: at the index, or at the end of the segment.
  uint64_t RecordsEnd() const;

 private:
  absl::StatusOr<std::optional<ScannedRecord>> At(uint64_t position);
  std::optional<ScannedRecord> Decoded(std::string_view head, uint64_t position) const;
  // Looks for the next sound head, from `searched_` on.
  absl::StatusOr<std::optional<ScannedRecord>> Search();
  absl::StatusOr<std::vector<IndexEntry>> Index();

  ByteWindow window_;
  std::optional<SegmentHead> head_;
  std::optional<SegmentTrailer> trailer_;
  uint64_t position_ = kRecordsBegin;
  uint64_t searched_ = 0;    // no sound head begins between position_ and here
  uint64_t end_offset_ = 0;  // of the record that was returned last
};

template <typename IsBefore>
absl::Status SegmentScan::SeekBefore(const IsBefore& is_before) {
  auto index = Index();
  if (!index.ok()) return index.status();
  position_ = kRecordsBegin;
  searched_ = end_offset_ = 0;
  for (const IndexEntry& entry : *index) {
    if (!is_before(entry)) break;
    position_ = entry.position;
  }
  if (!index->empty() || !head_.has_value()) return absl::OkStatus();
  uint64_t begin = kRecordsBegin;
  for (uint64_t end = RecordsEnd(); end > begin + kIndexStepBytes;) {
    const uint64_t middle = begin + (end - begin) / 2;
    searched_ = middle;
    auto record = Search();
    if (!record.ok()) return record.status();
    // An empty record has no time.
    if (record->has_value() && (*record)->position < end && (*record)->length > 0 &&
        is_before(IndexEntry{(*record)->offset, (*record)->position, (*record)->time_us,
                             (*record)->count})) {
      begin = (*record)->position;
    } else {
      end = middle;
    }
  }
  position_ = begin;
  searched_ = 0;
  return absl::OkStatus();
}

}  // namespace muster::coordinator
