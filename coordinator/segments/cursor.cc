#include "coordinator/segments/cursor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace muster::coordinator {
namespace {

constexpr size_t kSmallWindowBytes = 8 << 10;

}  // namespace

SegmentCursor::SegmentCursor(std::shared_ptr<const StreamSegments> segments, uint64_t offset,
                             Appetite appetite, size_t window_bytes)
    : segments_(std::move(segments)),
      appetite_(appetite),
      window_bytes_(appetite == Appetite::kAll ? window_bytes : kSmallWindowBytes),
      from_(offset),
      expected_(offset) {}

void SegmentCursor::StartOver() {
  scan_ = nullptr;
  ready_.clear();
  expected_ = from_;
  has_end_ = false;
}

bool SegmentCursor::StartOverOnce() {
  if (started_over_at_ == from_) return false;
  started_over_at_ = from_;
  StartOver();
  return true;
}

// True if the segment is shorter than the part that was read, or ends with bytes that are not a
// record.
bool SegmentCursor::IsDoubtful() const {
  return scan_->TotalBytes() < scan_->Position() || scan_->UnreadableBytes() > 0;
}

bool SegmentCursor::IsRewritten() {
  const auto known = scan_->Head();
  SegmentScan again(segments_->Open(segment_), kSmallWindowBytes);
  const auto head = again.Head();
  if (!known.ok() || !head.ok() || !known->has_value()) return false;
  return !head->has_value() || (*head)->salt != (*known)->salt;
}

absl::Status SegmentCursor::Open(uint64_t segment) {
  segment_ = segment;
  has_next_ = false;
  scan_ = std::make_unique<SegmentScan>(segments_->Open(segment), window_bytes_);
  identity_ = 0;  // not known yet
  if (from_ <= segment) return absl::OkStatus();
  // A record without bytes at the wanted offset may carry the end of the stream.
  RETURN_IF_ERROR(
      scan_->SeekBefore([this](const IndexEntry& entry) { return entry.offset < from_; }));
  identity_ = scan_->Identity();
  return absl::OkStatus();
}

absl::StatusOr<bool> SegmentCursor::OpenFirst() {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, segments_->List());
  if (segments.empty()) return false;
  const auto behind = std::upper_bound(segments.begin(), segments.end(), from_);
  const absl::Status opened = Open(behind == segments.begin() ? *behind : *std::prev(behind));
  if (!opened.ok()) scan_ = nullptr;
  RETURN_IF_ERROR(opened);
  return true;
}

absl::StatusOr<bool> SegmentCursor::PassOn() {
  if (scan_->MayGrow()) return false;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, segments_->List());
  const auto next = std::upper_bound(segments.begin(), segments.end(), segment_);
  // Some segments may have become one meanwhile, with what follows this one.
  const auto is_replaced = [&] {
    return !std::binary_search(segments.begin(), segments.end(), segment_) || IsRewritten();
  };
  const bool is_last = next == segments.end();
  // First reads the records that were written here before the next segment was started.
  if (!is_last && !std::exchange(has_next_, true)) return true;
  const bool lacks_what_follows = is_last || *next > expected_;
  if (lacks_what_follows && is_replaced()) {
    StartOver();
    return true;
  }
  if (is_last) return false;
  if (lacks_what_follows && StartOverOnce()) return true;
  RETURN_IF_ERROR(Open(*next));
  return true;
}

void SegmentCursor::Take(const ScannedRecord& record) {
  if (record.EndOffset() <= from_ && record.EndOffset() != 0 && !record.end) return;
  StreamRecord taken{record};
  const uint64_t gap = record.offset > expected_ ? record.offset - expected_ : 0;
  taken.dropped = std::min(record.dropped, gap);
  taken.damaged = gap - taken.dropped;
  taken.removed = record.removed && taken.dropped > 0;
  expected_ = std::max(expected_, record.EndOffset());
  has_end_ = has_end_ || record.end;
  ready_.push_back(taken);
}

void SegmentCursor::TakeLostEnd(const SegmentTrailer& trailer) {
  const bool lacks_end = trailer.ended && !has_end_;
  if (trailer.end_offset <= expected_ && !lacks_end) return;
  StreamRecord lost;
  lost.offset = std::max(trailer.end_offset, expected_);
  lost.time_us = trailer.last_us;
  lost.end = trailer.ended;
  lost.damaged = lost.offset - expected_;
  expected_ = lost.offset;
  has_end_ = trailer.ended;
  ready_.push_back(lost);
}

absl::StatusOr<bool> SegmentCursor::FillFromSegment() {
  const size_t most = appetite_ == Appetite::kAll ? 0 : kSmallWindowBytes;
  uint64_t begin = 0;
  do {
    ASSIGN_OR_RETURN(const auto record, scan_->Next());
    if (WasReplaced()) {
      StartOver();
      return true;
    }
    if (!record.has_value() && IsDoubtful() && IsRewritten() && StartOverOnce()) return true;
    identity_ = scan_->Identity();
    if (!record.has_value()) {
      if (scan_->SeenTrailer().has_value()) TakeLostEnd(*scan_->SeenTrailer());
      return !ready_.empty();
    }
    if (begin == 0) begin = record->position;
    Take(*record);
  } while (ready_.empty() || scan_->Position() < begin + most);
  if (appetite_ == Appetite::kFew) scan_->Forget();
  return true;
}

absl::StatusOr<const StreamRecord*> SegmentCursor::Peek() {
  while (ready_.empty()) {
    if (scan_ == nullptr) {
      ASSIGN_OR_RETURN(const bool found, OpenFirst());
      if (!found) return nullptr;
    }
    ASSIGN_OR_RETURN(bool more, FillFromSegment());
    if (!more) {
      ASSIGN_OR_RETURN(more, PassOn());
    }
    if (!more) return nullptr;
  }
  return &ready_.front();
}

absl::StatusOr<std::string> SegmentCursor::Body() {
  std::string body;
  RETURN_IF_ERROR(AppendBody(0, &body));
  return body;
}

absl::Status SegmentCursor::AppendBody(size_t skip, std::string* bytes) {
  const StreamRecord& record = ready_.front();
  if (record.length == 0) return absl::OkStatus();
  const absl::StatusOr<std::string_view> body = scan_->BodyView(record);
  if (WasReplaced()) {
    StartOver();
    return absl::UnavailableError("the segment was rewritten");
  }
  if (!body.ok() && IsRewritten() && StartOverOnce())
    return absl::UnavailableError("the segment may be gone");
  if (body.ok()) bytes->append(body->substr(std::min(skip, body->size())));
  if (appetite_ == Appetite::kFew) scan_->Forget();
  return body.status();
}

void SegmentCursor::Advance() {
  from_ = std::max(from_, ready_.front().EndOffset());
  ready_.pop_front();
}

uint64_t SegmentCursor::UnreadableBytes() const {
  return scan_ == nullptr || scan_->SeenTrailer().has_value() ? 0 : scan_->UnreadableBytes();
}

}  // namespace muster::coordinator
