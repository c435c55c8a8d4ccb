#include "coordinator/logs/log_merge.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"

namespace muster::coordinator {
namespace {

constexpr int kNewestAttempt = -2;

}  // namespace

LogMerge::LogMerge(const LogReader& logs, uint64_t job, const v1::StreamLogsRequest& request,
                   LogSearch* search)
    : logs_(logs),
      job_(job),
      request_(request),
      search_(search),
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

absl::StatusOr<std::map<LogKey, uint64_t>> LogMerge::NewStreams() const {
  std::optional<uint32_t> attempt;
  if (request_.attempt() >= 0) attempt = static_cast<uint32_t>(request_.attempt());
  ASSIGN_OR_RETURN(const std::vector<LogKey> streams, logs_.Streams(job_, attempt));
  std::map<LogKey, uint64_t> starts;
  for (const LogKey& key : streams) {
    if (!Wants(key) || cursors_.contains(key)) continue;
    ASSIGN_OR_RETURN(starts[key], Start(key));
  }
  return starts;
}

absl::Status LogMerge::Discover() {
  if (request_.tail_lines() > 0 && !tail_done_) {
    const absl::Status found = FindTail();
    if (!found.ok()) tail_ = nullptr;  // start over later
    if (!found.ok() || IsLooking()) return found;
  }
  ASSIGN_OR_RETURN(const auto starts, NewStreams());
  OpenAll(starts);
  return absl::OkStatus();
}

absl::Status LogMerge::FindTail() {
  if (tail_ == nullptr) {
    ASSIGN_OR_RETURN(auto starts, NewStreams());
    tail_ = std::make_unique<LogTail>(logs_, std::move(starts), request_.tail_lines());
  }
  ASSIGN_OR_RETURN(tail_done_, tail_->GoOn());
  if (!tail_done_) return absl::OkStatus();
  OpenAll(tail_->offsets());
  tail_ = nullptr;
  return absl::OkStatus();
}

void LogMerge::OpenAll(const std::map<LogKey, uint64_t>& starts) {
  if (search_ != nullptr) search_->Divide(cursors_.size() + starts.size());
  for (const auto& [key, start] : starts) {
    cursors_[key] = search_ == nullptr
                        ? logs_.Open(key, start)
                        : search_->Search(logs_.Open(key, start, search_->AheadBytes()), start);
    unread_.insert(key);
  }
}

absl::StatusOr<uint64_t> LogMerge::Start(const LogKey& key) const {
  const auto known = resume_.find(key);
  if (known != resume_.end()) return known->second;
  if (request_.since_ms() == 0) return 0;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1'000;
  return logs_.OffsetSince(key, std::clamp<int64_t>(request_.since_ms(), 0, kMost) * 1'000);
}

void LogMerge::HaveNews(const std::set<LogKey>& streams) {
  for (const LogKey& key : streams) {
    const auto cursor = cursors_.find(key);
    // A stream that is already in the order is read further when its piece is taken.
    if (cursor != cursors_.end() && !cursor->second->Ended()) unread_.insert(key);
  }
}

void LogMerge::LookAgain() {
  for (const auto& [key, cursor] : cursors_) {
    if (!cursor->Ended()) unread_.insert(key);
  }
}

absl::StatusOr<bool> LogMerge::MakeReady(const LogKey& key) {
  ASSIGN_OR_RETURN(const std::optional<LogPiece> piece, cursors_.at(key)->Peek());
  if (!piece.has_value()) return false;
  ready_[{key.attempt, piece->time_us, key.rank, key.stream}] = key;
  return true;
}

void LogMerge::Refill() {
  for (auto it = unread_.begin(); it != unread_.end();) {
    const absl::StatusOr<bool> ready = MakeReady(*it);
    trouble_.Update(ready.status());
    if (absl::IsUnavailable(ready.status())) return;  // nor would the others be
    it = ready.ok() ? unread_.erase(it) : std::next(it);
  }
}

std::optional<v1::LogRecord> LogMerge::Next() {
  trouble_ = absl::OkStatus();
  while (true) {
    if (!unread_.empty()) Refill();
    // While one stream cannot be read, the order is unknown.
    if (ready_.empty() || !trouble_.ok()) return std::nullopt;
    const LogKey key = ready_.begin()->second;
    LogCursor& cursor = *cursors_.at(key);
    absl::StatusOr<v1::LogRecord> record = Take(key);
    if (!record.ok()) {
      trouble_ = record.status();
      return std::nullopt;
    }
    // A stream that cannot be read now is retried, and Refill reports why.
    if (!cursor.Ended() && !MakeReady(key).ok()) unread_.insert(key);
    if (search_ == nullptr && IsTooOld(*record)) {
      if (!record->end()) continue;
      record->set_offset(record->offset() + record->data().size());
      record->clear_data();
    }
    return *std::move(record);
  }
}

bool LogMerge::IsTooOld(const v1::LogRecord& record) const {
  return request_.since_ms() != 0 && record.time_us() / 1'000 < request_.since_ms();
}

// The stream is in the order, so it has a piece.
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
  record.set_over_quota(piece->over_quota);
  record.set_end(piece->end);
  if (piece->searched_to.has_value()) record.set_searched_to(*piece->searched_to);
  record.set_matches(piece->matches);
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
