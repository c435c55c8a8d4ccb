#include "coordinator/segments/backwards.h"

#include <algorithm>
#include <string>

#include "common/base/status.h"
#include "coordinator/segments/layout.h"

namespace muster::coordinator {
namespace {

constexpr uint64_t kFirstStepBytes = 8 << 10;

}  // namespace

absl::StatusOr<bool> SegmentBackwards::OpenPrevious() {
  if (!listed_) {
    ASSIGN_OR_RETURN(segments_, stream_->List());
    listed_ = true;
  }
  if (segments_.empty()) return false;
  scan_ = std::make_unique<SegmentScan>(stream_->Open(segments_.back()), kFirstStepBytes);
  segments_.pop_back();
  RETURN_IF_ERROR(scan_->Trailer().status());
  end_ = scan_->RecordsEnd();
  step_ = kFirstStepBytes;
  return true;
}

absl::Status SegmentBackwards::ReadBlock() {
  const uint64_t from = std::max<uint64_t>(end_ > step_ ? end_ - step_ : 0, kRecordsBegin);
  RETURN_IF_ERROR(scan_->SeekTo(from));
  while (true) {
    ASSIGN_OR_RETURN(const auto record, scan_->Next());
    if (!record.has_value() || record->position >= end_) break;
    block_.push_back(*record);
  }
  scan_->Forget();
  // If nothing is found, a record is longer than the step, or there is damage.
  step_ = block_.empty() ? step_ * 2 : std::min(step_ * 2, kIndexStepBytes);
  if (!block_.empty()) {
    end_ = block_.front().position;
  } else if (from == kRecordsBegin) {
    end_ = 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SegmentBackwards::LinesAtTheEnd(const ScannedRecord& last) {
  const absl::StatusOr<std::string> body = scan_->Body(last);
  if (absl::IsDataLoss(body.status()) || (body.ok() && body->empty())) return 0;
  RETURN_IF_ERROR(body.status());
  const uint64_t newlines = LinesIn(*body);
  return newlines + (body->back() == '\n' ? 0 : 1);
}

absl::StatusOr<std::optional<CountedRecord>> SegmentBackwards::Previous() {
  while (block_.empty()) {
    if (scan_ == nullptr || end_ <= kRecordsBegin) {
      ASSIGN_OR_RETURN(const bool opened, OpenPrevious());
      if (!opened) return std::nullopt;
      continue;
    }
    RETURN_IF_ERROR(ReadBlock());
  }
  CountedRecord record{block_.back()};
  if (count_behind_.has_value()) {
    record.items = *count_behind_ > record.count ? *count_behind_ - record.count : 0;
  } else {
    ASSIGN_OR_RETURN(record.items, LinesAtTheEnd(record));
  }
  block_.pop_back();
  // A record without bytes has no information about the lines before it.
  if (record.length > 0) count_behind_ = record.count;
  return record;
}

}  // namespace muster::coordinator
