#include "coordinator/logs/log_search.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/status.h"

namespace muster::coordinator {

class SearchCursor final : public LogCursor {
 public:
  SearchCursor(LogSearch& query, std::unique_ptr<LogCursor> inner, uint64_t offset)
      : query_(query), inner_(std::move(inner)), lines_(query.share_, offset) {}

  absl::StatusOr<std::optional<LogPiece>> Peek() override;
  absl::StatusOr<std::string> Read(const LogPiece&) override {
    return found_.empty() ? std::string() : found_.front().bytes;
  }
  void Advance() override;
  bool Ended() const override { return ended_; }
  uint64_t UnreadableBytes() const override { return inner_->UnreadableBytes(); }

 private:
  // Searches the next block and fills found_ and mark_. False: nothing more for now.
  absl::StatusOr<bool> SearchBlock();
  // Appends the next pieces to the query's text and marks. True: its last line is complete.
  absl::StatusOr<bool> TakePieces();
  // Reports a gap before the piece, damage in it, or that it is too old, instead of searching it.
  // False if none of these apply.
  bool TakeGap(const LogPiece& piece, bool is_damaged);
  bool IsTooOld(const LogPiece& piece) const;
  void Mark(const LogPiece& piece);

  LogSearch& query_;
  const std::unique_ptr<LogCursor> inner_;
  common::LineSearch lines_;
  std::deque<common::FoundLines> found_;
  // Comes after what was found: the progress of the search, a gap, or the end.
  std::optional<LogPiece> mark_;
  uint64_t gap_told_ = UINT64_MAX;  // the gap before this offset was reported
  int64_t time_us_ = 0;             // of the newest piece
  bool ended_ = false;
};

bool SearchCursor::IsTooOld(const LogPiece& piece) const {
  return query_.since_ms_ != 0 && piece.time_us / 1'000 < query_.since_ms_;
}

void SearchCursor::Mark(const LogPiece& piece) {
  mark_ = piece;
  mark_->length = 0;
  mark_->searched_to = lines_.SearchedTo();
  mark_->offset = *mark_->searched_to;
  mark_->matches = lines_.TakeCount();
}

bool SearchCursor::TakeGap(const LogPiece& piece, bool is_damaged) {
  LogPiece gap = piece;
  if (gap_told_ == piece.offset) gap.dropped = gap.damaged = 0;
  const bool is_gap = gap.dropped > 0 || gap.damaged > 0;
  if (!is_gap && !is_damaged && !IsTooOld(piece)) return false;
  const uint64_t end = piece.offset + piece.length;
  gap_told_ = piece.offset;
  if (is_damaged || IsTooOld(piece)) {
    if (is_damaged) gap.damaged += piece.length;
    query_.searched_bytes_ += piece.length;
    lines_.SkipTo(end);
    inner_->Advance();
  } else {
    gap.end = false;
    lines_.SkipTo(piece.offset);
  }
  if (IsTooOld(piece)) gap.dropped = gap.damaged = 0;
  Mark(gap);
  return true;
}

absl::StatusOr<bool> SearchCursor::TakePieces() {
  const size_t begin = query_.text_.size();
  while (query_.text_.size() - begin < query_.block_bytes_) {
    const bool has_text = query_.text_.size() > begin;
    const auto piece = inner_->Peek();
    if (!piece.ok() && !has_text) return piece.status();
    if (!piece.ok() || !piece->has_value()) return false;
    const LogPiece next = **piece;
    const bool is_gap = (next.dropped > 0 || next.damaged > 0) && gap_told_ != next.offset;
    const bool holds_line = has_text || lines_.HasOpenLine();
    // First search the pieces that were taken; the next call sees this piece again.
    if ((is_gap || IsTooOld(next)) && holds_line) return true;
    if (TakeGap(next, false)) return false;
    const size_t at = query_.text_.size();
    const absl::Status read = inner_->Append(next, &query_.text_);
    if (absl::IsDataLoss(read)) {
      if (holds_line) return true;
      TakeGap(next, true);
      return false;
    }
    if (!read.ok() && !has_text) return read;
    if (!read.ok()) return false;
    query_.marks_.push_back({at, next.time_us});
    query_.searched_bytes_ += next.length;
    time_us_ = next.time_us;
    inner_->Advance();
    if (next.end) {
      mark_ = LogPiece{.time_us = next.time_us, .end = true};
      return true;
    }
  }
  return false;
}

absl::StatusOr<bool> SearchCursor::SearchBlock() {
  query_.text_.assign(lines_.Kept());
  query_.marks_.clear();
  const size_t kept = query_.text_.size();
  absl::StatusOr<bool> cut = TakePieces();
  inner_->Forget();
  RETURN_IF_ERROR(cut.status());
  const bool has_new = query_.text_.size() > kept;
  if (!has_new && !*cut && mark_.has_value()) return true;  // a gap
  if (!has_new && !*cut) {
    if (!query_.ends_open_lines_ || !lines_.HasOpenLine()) return false;
    cut = true;
  }
  lines_.Run(query_.text_, query_.marks_, *cut, found_);
  Mark(mark_.value_or(LogPiece{.time_us = time_us_}));
  return true;
}

absl::StatusOr<std::optional<LogPiece>> SearchCursor::Peek() {
  if (found_.empty() && !mark_.has_value()) {
    ASSIGN_OR_RETURN(const bool more, SearchBlock());
    if (!more) return std::nullopt;
  }
  if (found_.empty()) return mark_;
  const common::FoundLines& lines = found_.front();
  return LogPiece{.offset = lines.offset,
                  .time_us = lines.time_us,
                  .length = static_cast<uint32_t>(lines.bytes.size()),
                  .searched_to = lines.end,
                  .matches = lines.matches};
}

void SearchCursor::Advance() {
  if (!found_.empty()) return found_.pop_front();
  if (!mark_.has_value()) return;
  ended_ = ended_ || mark_->end;
  mark_.reset();
}

std::unique_ptr<LogCursor> LogSearch::Search(std::unique_ptr<LogCursor> inner, uint64_t offset) {
  return std::make_unique<SearchCursor>(*this, std::move(inner), offset);
}

void LogSearch::Divide(size_t streams) {
  block_bytes_ =
      std::clamp(kAllBlocksBytes / std::max<size_t>(streams, 1), kBlockBytesMin, kBlockBytesMax);
}

}  // namespace muster::coordinator
