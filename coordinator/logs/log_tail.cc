#include "coordinator/logs/log_tail.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"

namespace muster::coordinator {
namespace {

constexpr int kStepsAtOnce = 1'024;

}  // namespace

LogTail::LogTail(const LogReader& logs, std::map<LogKey, uint64_t> streams, uint64_t lines)
    : logs_(logs), streams_(std::move(streams)), next_(streams_.rbegin()), left_(lines) {}

absl::StatusOr<bool> LogTail::GoOn() {
  for (int steps = 0; steps < kStepsAtOnce; ++steps) {
    if (offsets_.size() == streams_.size()) return true;
    RETURN_IF_ERROR(Step());
  }
  return offsets_.size() == streams_.size();
}

absl::Status LogTail::Step() {
  if (stepping_.has_value()) return StepBack();
  switch (doing_) {
    case Doing::kOpening:
      OpenNext();
      break;
    case Doing::kTaking:
      TakePiece();
      break;
    case Doing::kPlacing:
      return PlaceOne();
  }
  return absl::OkStatus();
}

void LogTail::OpenNext() {
  const bool is_next_attempt = next_ != streams_.rend() && !of_attempt_.empty() &&
                               next_->first.attempt != of_attempt_.begin()->first.attempt;
  if (next_ == streams_.rend() || is_next_attempt) {
    doing_ = Doing::kTaking;
    return;
  }
  stepping_ = next_->first;
  of_attempt_[next_->first].pieces = logs_.OpenAtEnd(next_->first);
  ++next_;
}

// Looks for a piece in which a line ends, because the mark of a stream's end has no time.
absl::Status LogTail::StepBack() {
  const LogKey key = *stepping_;
  Backwards& stream = of_attempt_.at(key);
  ASSIGN_OR_RETURN(const auto before, stream.pieces->Previous());
  const bool is_over = !before.has_value();
  if (!is_over) stream.end = std::max(stream.end, before->end_offset);
  if (is_over || (before->lines == 0 && before->end_offset <= streams_.at(key))) {
    stepping_.reset();
  } else if (before->lines > 0) {
    stepping_.reset();
    stream.piece = *before;
    by_time_[{before->time_us, key.rank, key.stream}] = key;
  }
  return absl::OkStatus();
}

void LogTail::TakePiece() {
  if (left_ == 0 || by_time_.empty()) {
    doing_ = Doing::kPlacing;
    return;
  }
  const LogKey key = by_time_.rbegin()->second;
  by_time_.erase(std::prev(by_time_.end()));
  Backwards& stream = of_attempt_.at(key);
  const uint64_t lines = std::min(stream.piece.lines, left_);
  stream.taken += lines;
  left_ -= lines;
  if (left_ > 0 && stream.piece.end_offset > streams_.at(key)) stepping_ = key;
}

absl::Status LogTail::PlaceOne() {
  const auto& [key, stream] = *of_attempt_.begin();
  const uint64_t least = streams_.at(key);
  if (stream.taken == 0) {
    offsets_[key] = std::max(least, stream.end);
  } else {
    ASSIGN_OR_RETURN(const uint64_t begin, logs_.OffsetOfLastLines(key, stream.taken));
    offsets_[key] = std::max(least, begin);
  }
  of_attempt_.erase(of_attempt_.begin());
  if (!of_attempt_.empty()) return absl::OkStatus();
  by_time_.clear();
  doing_ = Doing::kOpening;
  return absl::OkStatus();
}

}  // namespace muster::coordinator
