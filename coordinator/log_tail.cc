#include "coordinator/log_tail.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "common/status.h"

namespace muster::coordinator {
namespace {

// A stream that is read backwards, and its current piece.
struct Backwards {
  std::unique_ptr<LogBackwards> pieces;
  LogBackwards::Piece piece;
  uint64_t end = 0;    // of the stream
  uint64_t taken = 0;  // lines, from its end
};

class Tail {
 public:
  Tail(const LogReader& logs, const std::map<LogKey, uint64_t>& streams, uint64_t lines)
      : logs_(logs), streams_(streams), left_(lines) {}

  absl::StatusOr<std::map<LogKey, uint64_t>> Offsets() {
    std::map<LogKey, uint64_t> offsets;
    for (auto stream = streams_.rbegin(); stream != streams_.rend();) {
      const uint32_t attempt = stream->first.attempt;
      for (; stream != streams_.rend() && stream->first.attempt == attempt; ++stream) {
        RETURN_IF_ERROR(Open(stream->first));
      }
      RETURN_IF_ERROR(TakeLines());
      for (auto& [key, backwards] : of_attempt_) {
        ASSIGN_OR_RETURN(offsets[key], Begin(key, backwards));
      }
      of_attempt_.clear();
      by_time_.clear();
    }
    return offsets;
  }

 private:
  using Place = std::tuple<int64_t, uint32_t, v1::LogStream>;  // time, rank, stream

  absl::Status Open(const LogKey& key) {
    Backwards backwards{.pieces = logs_.OpenAtEnd(key)};
    RETURN_IF_ERROR(StepBack(key, backwards));
    of_attempt_[key] = std::move(backwards);
    return absl::OkStatus();
  }

  // Goes back to a piece in which a line ends: the mark of a stream's end has no time.
  absl::Status StepBack(const LogKey& key, Backwards& stream) {
    while (true) {
      ASSIGN_OR_RETURN(const auto before, stream.pieces->Previous());
      if (!before.has_value()) return absl::OkStatus();
      stream.end = std::max(stream.end, before->end_offset);
      if (before->lines == 0) {
        if (before->end_offset <= streams_.at(key)) return absl::OkStatus();
        continue;
      }
      stream.piece = *before;
      by_time_[{before->time_us, key.rank, key.stream}] = key;
      return absl::OkStatus();
    }
  }

  absl::Status TakeLines() {
    while (left_ > 0 && !by_time_.empty()) {
      const LogKey key = by_time_.rbegin()->second;
      by_time_.erase(std::prev(by_time_.end()));
      Backwards& stream = of_attempt_.at(key);
      const uint64_t lines = std::min(stream.piece.lines, left_);
      stream.taken += lines;
      left_ -= lines;
      if (left_ == 0 || stream.piece.end_offset <= streams_.at(key)) continue;
      RETURN_IF_ERROR(StepBack(key, stream));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Begin(const LogKey& key, const Backwards& stream) const {
    const uint64_t least = streams_.at(key);
    if (stream.taken == 0) return std::max(least, stream.end);
    ASSIGN_OR_RETURN(const uint64_t begin, logs_.OffsetOfLastLines(key, stream.taken));
    return std::max(least, begin);
  }

  const LogReader& logs_;
  const std::map<LogKey, uint64_t>& streams_;
  uint64_t left_;
  std::map<LogKey, Backwards> of_attempt_;
  std::map<Place, LogKey> by_time_;
};

}  // namespace

absl::StatusOr<std::map<LogKey, uint64_t>> OffsetsOfLastLines(
    const LogReader& logs, const std::map<LogKey, uint64_t>& streams, uint64_t lines) {
  return Tail(logs, streams, lines).Offsets();
}

}  // namespace muster::coordinator
