#include "coordinator/log_merge.h"

#include <algorithm>

#include "common/status.h"

namespace muster::coordinator {
namespace {

constexpr int kAllAttempts = -1;
constexpr int kNewestAttempt = -2;

uint64_t LinesIn(const std::string& bytes) {
  return static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
}

}  // namespace

LogMerge::LogMerge(const LogReader& logs, uint64_t job, const v1::StreamLogsRequest& request)
    : logs_(logs),
      job_(job),
      request_(request),
      ranks_(request.ranks().begin(), request.ranks().end()),
      nodes_(request.nodes().begin(), request.nodes().end()) {
  for (const v1::LogPosition& position : request.resume()) {
    resume_[{job, position.attempt(), position.rank(), position.stream()}] = position.offset();
  }
}

void LogMerge::Know(const v1::JobRecord& record) {
  expected_.clear();
  for (const v1::Attempt& attempt : record.attempts()) {
    newest_attempt_ = std::max(newest_attempt_, attempt.number());
  }
  for (const v1::Attempt& attempt : record.attempts()) {
    for (const v1::NodePart& part : attempt.parts()) {
      for (uint32_t local = 0; local < part.local_world_size(); ++local) {
        LogKey key{job_, attempt.number(), part.first_rank() + local, v1::LOG_STREAM_STDOUT};
        node_of_[{key.attempt, key.rank}] = part.node();
        if (!part.launched()) continue;
        if (Wants(key)) expected_.insert(key);
        key.stream = v1::LOG_STREAM_STDERR;
        if (Wants(key)) expected_.insert(key);
      }
    }
  }
}

bool LogMerge::Wants(const LogKey& key) const {
  if (request_.attempt() == kNewestAttempt && key.attempt != newest_attempt_) return false;
  if (request_.attempt() >= 0 && key.attempt != static_cast<uint32_t>(request_.attempt())) {
    return false;
  }
  if (!ranks_.empty() && !ranks_.contains(key.rank)) return false;
  if (request_.stream() != v1::LOG_STREAM_UNSPECIFIED && request_.stream() != key.stream) {
    return false;
  }
  if (nodes_.empty()) return true;
  const auto node = node_of_.find({key.attempt, key.rank});
  return node != node_of_.end() && nodes_.contains(node->second);
}

absl::Status LogMerge::Discover() {
  std::optional<uint32_t> attempt;
  if (request_.attempt() >= 0) attempt = static_cast<uint32_t>(request_.attempt());
  ASSIGN_OR_RETURN(const std::vector<LogKey> streams, logs_.Streams(job_, attempt));
  for (const LogKey& key : streams) {
    if (Wants(key) && !cursors_.contains(key)) RETURN_IF_ERROR(AddStream(key));
  }
  if (request_.tail_lines() > 0 && !tail_done_) RETURN_IF_ERROR(SkipAllButLastLines());
  tail_done_ = true;
  return absl::OkStatus();
}

absl::Status LogMerge::AddStream(const LogKey& key) {
  const auto known = resume_.find(key);
  uint64_t start = known == resume_.end() ? 0 : known->second;
  if (request_.tail_lines() > 0 && !tail_done_) {
    ASSIGN_OR_RETURN(const uint64_t tail, logs_.OffsetOfLastLines(key, request_.tail_lines()));
    start = std::max(start, tail);
  }
  starts_[key] = start;
  cursors_[key] = logs_.Open(key, start);
  waiting_.insert(key);
  return absl::OkStatus();
}

// Each stream is positioned at its own last lines; only the last ones of all streams together are
// wanted.
absl::Status LogMerge::SkipAllButLastLines() {
  uint64_t lines = 0;
  std::map<LogKey, bool> open_line;
  while (const std::optional<v1::LogRecord> record = Next()) {
    if (record->data().empty()) continue;
    lines += LinesIn(record->data());
    open_line[{job_, record->attempt(), record->rank(), record->stream()}] =
        record->data().back() != '\n';
  }
  for (const auto& [key, open] : open_line) lines += open ? 1 : 0;
  lines_to_skip_ = lines > request_.tail_lines() ? lines - request_.tail_lines() : 0;
  ready_.clear();
  for (const auto& [key, start] : starts_) {
    cursors_[key] = logs_.Open(key, start);
    waiting_.insert(key);
  }
  if (!trouble_.ok()) lines_to_skip_ = 0;
  return trouble_;
}

absl::StatusOr<bool> LogMerge::MakeReady(const LogKey& key) {
  ASSIGN_OR_RETURN(const std::optional<LogPiece> piece, cursors_.at(key)->Peek());
  if (!piece.has_value()) return false;
  ready_[{key.attempt, piece->time_us, key.rank, key.stream}] = key;
  return true;
}

void LogMerge::Refill() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const absl::StatusOr<bool> ready = MakeReady(*it);
    trouble_.Update(ready.status());
    it = ready.ok() && *ready ? waiting_.erase(it) : std::next(it);
  }
}

std::optional<v1::LogRecord> LogMerge::Next() {
  trouble_ = absl::OkStatus();
  while (true) {
    if (ready_.empty()) Refill();
    // While one stream cannot be read, the order is not known.
    if (ready_.empty() || !trouble_.ok()) return std::nullopt;
    const LogKey key = ready_.begin()->second;
    LogCursor& cursor = *cursors_.at(key);
    absl::StatusOr<v1::LogRecord> record = Take(key);
    if (!record.ok()) {
      trouble_ = record.status();
      return std::nullopt;
    }
    // A stream that cannot be read now waits, and Refill reports why.
    if (!cursor.Ended() && !MakeReady(key).value_or(false)) waiting_.insert(key);
    if (IsTooOld(*record) && !record->end()) continue;
    if (KeepLastLines(*record)) return *std::move(record);
  }
}

bool LogMerge::IsTooOld(const v1::LogRecord& record) const {
  return request_.since_ms() != 0 && record.time_us() / 1'000 < request_.since_ms();
}

bool LogMerge::KeepLastLines(v1::LogRecord& record) {
  if (lines_to_skip_ == 0) return true;
  const uint64_t lines = LinesIn(record.data());
  if (lines < lines_to_skip_ && !record.end()) {
    lines_to_skip_ -= lines;
    return false;
  }
  size_t cut = 0;
  while (lines_to_skip_ > 0 && cut < record.data().size()) {
    if (record.data()[cut++] == '\n') --lines_to_skip_;
  }
  record.set_offset(record.offset() + cut);
  record.set_data(record.data().substr(cut));
  return !record.data().empty() || record.damaged() > 0 || record.end();
}

// It is in the order, so it has a piece.
absl::StatusOr<v1::LogRecord> LogMerge::Take(const LogKey& key) {
  LogCursor& cursor = *cursors_.at(key);
  ASSIGN_OR_RETURN(const std::optional<LogPiece> piece, cursor.Peek());
  v1::LogRecord record;
  record.set_attempt(key.attempt);
  record.set_rank(key.rank);
  record.set_stream(key.stream);
  const auto node = node_of_.find({key.attempt, key.rank});
  if (node != node_of_.end()) record.set_node(node->second);
  record.set_offset(piece->offset);
  record.set_time_us(piece->time_us);
  record.set_dropped(piece->dropped);
  record.set_damaged(piece->damaged);
  record.set_end(piece->end);
  absl::StatusOr<std::string> data = cursor.Read(*piece);
  if (absl::IsDataLoss(data.status())) {
    record.set_offset(piece->offset + piece->length);
    record.set_damaged(piece->damaged + piece->length);
  } else {
    ASSIGN_OR_RETURN(*record.mutable_data(), std::move(data));
  }
  ready_.erase(ready_.begin());
  cursor.Advance();
  return record;
}

uint64_t LogMerge::UnreadableBytes() const {
  uint64_t bytes = 0;
  for (const auto& [key, cursor] : cursors_) {
    if (!cursor->Ended()) bytes += cursor->UnreadableBytes();
  }
  return bytes;
}

bool LogMerge::Complete() const {
  for (const LogKey& key : expected_) {
    const auto cursor = cursors_.find(key);
    if (cursor == cursors_.end() || !cursor->second->Ended()) return false;
  }
  for (const auto& [key, cursor] : cursors_) {
    if (!cursor->Ended()) return false;
  }
  return true;
}

}  // namespace muster::coordinator
