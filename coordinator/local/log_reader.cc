#include "coordinator/local/log_reader.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/segments/backwards.h"
#include "coordinator/segments/cursor.h"
#include "coordinator/segments/last_lines.h"
#include "coordinator/segments/since.h"

namespace muster::coordinator {
namespace {

// The directory's entries; none if it does not exist.
absl::StatusOr<std::vector<std::string>> ListIfThere(const std::string& directory) {
  absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

class LocalLogCursor final : public LogCursor {
 public:
  LocalLogCursor(SegmentFiles files, uint64_t offset, size_t ahead)
      : records_(std::move(files), offset,
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

absl::StatusOr<std::optional<LogPiece>> LocalLogCursor::Peek() {
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

absl::StatusOr<std::string> LocalLogCursor::Read(const LogPiece& piece) {
  std::string body;
  RETURN_IF_ERROR(Append(piece, &body));
  return body;
}

absl::Status LocalLogCursor::Append(const LogPiece& piece, std::string* bytes) {
  ASSIGN_OR_RETURN(const StreamRecord* record, records_.Peek());
  if (record == nullptr) return absl::UnavailableError("the stream is being made anew");
  const size_t skip = record->length - std::min(record->length, piece.length);
  return records_.AppendBody(skip, bytes);
}

void LocalLogCursor::Advance() {
  const absl::StatusOr<const StreamRecord*> record = records_.Peek();
  if (!record.ok() || *record == nullptr) return;
  ended_ = ended_ || (*record)->end;
  from_ = std::max(from_, (*record)->EndOffset());
  records_.Advance();
}

class LocalLogBackwards final : public LogBackwards {
 public:
  explicit LocalLogBackwards(SegmentFiles files) : records_(std::move(files)) {}

  absl::StatusOr<std::optional<Piece>> Previous() override {
    ASSIGN_OR_RETURN(const auto record, records_.Previous());
    if (!record.has_value()) return std::nullopt;
    return Piece{record->EndOffset(), record->time_us, record->items};
  }

 private:
  SegmentBackwards records_;
};

}  // namespace

bool ParseStreamName(std::string_view stream, LogKey* key) {
  absl::string_view name = common::ToAbsl(stream);
  if (!absl::ConsumePrefix(&name, "rank-")) return false;
  key->stream = v1::LOG_STREAM_STDOUT;
  if (absl::ConsumeSuffix(&name, ".stderr")) {
    key->stream = v1::LOG_STREAM_STDERR;
  } else if (!absl::ConsumeSuffix(&name, ".stdout")) {
    return false;
  }
  return absl::SimpleAtoi(name, &key->rank);
}

absl::Status LocalLogReader::AddStreamsOf(uint64_t job, uint32_t attempt,
                                          std::vector<LogKey>& keys) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListIfThere(paths_.LogDirectory(job, attempt)));
  LogKey key{.job = job, .attempt = attempt};
  for (const std::string& name : names) {
    if (ParseStreamName(SegmentBase(name), &key)) keys.push_back(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LogKey>> LocalLogReader::Streams(uint64_t job,
                                                            std::optional<uint32_t> only) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(paths_.LogDirectory(job)));
  std::vector<LogKey> keys;
  for (const std::string& name : names) {
    uint32_t attempt = 0;
    if (!absl::SimpleAtoi(name, &attempt) || attempt != only.value_or(attempt)) continue;
    RETURN_IF_ERROR(AddStreamsOf(job, attempt, keys));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::unique_ptr<LogCursor> LocalLogReader::Open(const LogKey& key, uint64_t offset,
                                                size_t ahead) const {
  return std::make_unique<LocalLogCursor>(SegmentFiles(paths_.LogStream(key)), offset, ahead);
}

std::unique_ptr<LogBackwards> LocalLogReader::OpenAtEnd(const LogKey& key) const {
  return std::make_unique<LocalLogBackwards>(SegmentFiles(paths_.LogStream(key)));
}

absl::StatusOr<uint64_t> LocalLogReader::OffsetSince(const LogKey& key, int64_t time_us) const {
  return coordinator::OffsetSince(SegmentFiles(paths_.LogStream(key)), time_us);
}

absl::StatusOr<uint64_t> LocalLogReader::OffsetOfLastLines(const LogKey& key,
                                                           uint64_t lines) const {
  return coordinator::OffsetOfLastLines(SegmentFiles(paths_.LogStream(key)), lines);
}

}  // namespace muster::coordinator
