#include "coordinator/store_parts/segment_logs.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "coordinator/segments/backwards.h"
#include "coordinator/segments/cursor.h"
#include "coordinator/segments/last_lines.h"
#include "coordinator/segments/since.h"

namespace muster::coordinator {
namespace {

class SegmentLogCursor final : public LogCursor {
 public:
  SegmentLogCursor(std::shared_ptr<const StreamSegments> segments, uint64_t offset, size_t ahead)
      : records_(std::move(segments), offset,
                 ahead == 0 ? SegmentCursor::Appetite::kFew : SegmentCursor::Appetite::kAll, ahead),
        from_(offset) {}

  absl::StatusOr<std::optional<LogPiece>> Peek() override;
  absl::StatusOr<std::string> Read(const LogPiece& piece) override;
  absl::Status Append(const LogPiece& piece, std::string* bytes) override;
  void Advance() override;
  void Forget() override { records_.Forget(); }
  bool Ended() const override { return ended_; }
  uint64_t UnreadableBytes() const override { return records_.UnreadableBytes(); }

 private:
  SegmentCursor records_;
  uint64_t from_;
  bool ended_ = false;
};

absl::StatusOr<std::optional<LogPiece>> SegmentLogCursor::Peek() {
  ASSIGN_OR_RETURN(const StreamRecord* record, records_.Peek());
  if (record == nullptr) return std::nullopt;
  LogPiece piece{.offset = record->offset,
                 .dropped = record->dropped,
                 .damaged = record->damaged,
                 .over_quota = record->removed,
                 .time_us = record->time_us,
                 .length = record->length,
                 .end = record->end};
  if (piece.offset < from_) {
    const uint64_t skip = std::min<uint64_t>(from_ - piece.offset, piece.length);
    piece.offset += skip;
    piece.length -= static_cast<uint32_t>(skip);
  }
  return piece;
}

absl::StatusOr<std::string> SegmentLogCursor::Read(const LogPiece& piece) {
  std::string body;
  RETURN_IF_ERROR(Append(piece, &body));
  return body;
}

absl::Status SegmentLogCursor::Append(const LogPiece& piece, std::string* bytes) {
  ASSIGN_OR_RETURN(const StreamRecord* record, records_.Peek());
  if (record == nullptr) return absl::UnavailableError("the stream is being rewritten");
  const size_t skip = record->length - std::min(record->length, piece.length);
  return records_.AppendBody(skip, bytes);
}

void SegmentLogCursor::Advance() {
  const absl::StatusOr<const StreamRecord*> record = records_.Peek();
  if (!record.ok() || *record == nullptr) return;
  ended_ = ended_ || (*record)->end;
  from_ = std::max(from_, (*record)->EndOffset());
  records_.Advance();
}

class SegmentLogBackwards final : public LogBackwards {
 public:
  explicit SegmentLogBackwards(std::shared_ptr<const StreamSegments> segments)
      : records_(std::move(segments)) {}

  absl::StatusOr<std::optional<Piece>> Previous() override {
    ASSIGN_OR_RETURN(const auto record, records_.Previous());
    if (!record.has_value()) return std::nullopt;
    return Piece{record->EndOffset(), record->time_us, record->items};
  }

 private:
  SegmentBackwards records_;
};

}  // namespace

std::unique_ptr<LogCursor> SegmentLogReader::Open(const LogKey& key, uint64_t offset,
                                                  size_t ahead) const {
  return std::make_unique<SegmentLogCursor>(SegmentsOf(key), offset, ahead);
}

std::unique_ptr<LogBackwards> SegmentLogReader::OpenAtEnd(const LogKey& key) const {
  return std::make_unique<SegmentLogBackwards>(SegmentsOf(key));
}

absl::StatusOr<uint64_t> SegmentLogReader::OffsetSince(const LogKey& key, int64_t time_us) const {
  return coordinator::OffsetSince(*SegmentsOf(key), time_us);
}

absl::StatusOr<uint64_t> SegmentLogReader::OffsetOfLastLines(const LogKey& key,
                                                             uint64_t lines) const {
  return coordinator::OffsetOfLastLines(*SegmentsOf(key), lines);
}

}  // namespace muster::coordinator
