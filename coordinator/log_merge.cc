#include "coordinator/log_merge.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

constexpr int kAllAttempts = -1;
constexpr int kNewestAttempt = -2;

// "rank-3.stderr" → (3, stderr).
bool ParseName(absl::string_view name, LogKey* key) {
  if (!absl::ConsumePrefix(&name, "rank-")) return false;
  key->stream = v1::LOG_STREAM_STDOUT;
  if (absl::ConsumeSuffix(&name, ".stderr")) {
    key->stream = v1::LOG_STREAM_STDERR;
  } else if (!absl::ConsumeSuffix(&name, ".stdout")) {
    return false;
  }
  return absl::SimpleAtoi(name, &key->rank);
}

uint64_t LinesIn(const std::string& bytes) {
  return static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
}

}  // namespace

LogMerge::LogMerge(const Paths& paths, uint64_t job, const v1::StreamLogsRequest& request)
    : paths_(paths),
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
  absl::StatusOr<std::vector<std::string>> attempts =
      common::ListDirectory(paths_.LogDirectory(job_));
  if (absl::IsNotFound(attempts.status())) attempts = std::vector<std::string>();
  RETURN_IF_ERROR(attempts.status());
  for (const std::string& directory : *attempts) {
    LogKey key{.job = job_};
    if (!absl::SimpleAtoi(directory, &key.attempt)) continue;
    if (request_.attempt() >= 0 && key.attempt != static_cast<uint32_t>(request_.attempt()))
      continue;
    const auto names = common::ListDirectory(paths_.LogDirectory(job_, key.attempt));
    if (absl::IsNotFound(names.status())) continue;
    RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      if (ParseName(name, &key) && Wants(key) && !cursors_.contains(key)) {
        RETURN_IF_ERROR(AddStream(key));
      }
    }
  }
  if (request_.tail_lines() > 0 && !tail_done_) RETURN_IF_ERROR(SkipAllButLastLines());
  tail_done_ = true;
  return absl::OkStatus();
}

absl::Status LogMerge::AddStream(const LogKey& key) {
  const auto known = resume_.find(key);
  uint64_t start = known == resume_.end() ? 0 : known->second;
  if (request_.tail_lines() > 0 && !tail_done_) {
    ASSIGN_OR_RETURN(const uint64_t tail,
                     LogCursor(paths_, key, 0).OffsetOfLastLines(request_.tail_lines()));
    start = std::max(start, tail);
  }
  cursors_.emplace(key, LogCursor(paths_, key, start));
  waiting_.insert(key);
  return absl::OkStatus();
}

// Each stream stands at its own last lines; of these, taken together, only the last ones are
// wanted.
absl::Status LogMerge::SkipAllButLastLines() {
  const std::map<LogKey, LogCursor> start = cursors_;
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
  cursors_ = start;
  ready_.clear();
  waiting_.clear();
  for (const auto& [key, cursor] : cursors_) waiting_.insert(key);
  if (!trouble_.ok()) lines_to_skip_ = 0;
  return trouble_;
}

void LogMerge::Refill() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    LogCursor& cursor = cursors_.at(*it);
    const std::optional<LogIndexRecord> piece = cursor.Peek();
    if (!piece.has_value()) {
      trouble_.Update(cursor.Trouble());
      ++it;
      continue;
    }
    ready_[{it->attempt, piece->time_us, it->rank, it->stream}] = *it;
    it = waiting_.erase(it);
  }
}

std::optional<v1::LogRecord> LogMerge::Next() {
  trouble_ = absl::OkStatus();
  while (true) {
    if (ready_.empty()) Refill();
    // With a stream that could not be looked at, the order is not known yet.
    if (ready_.empty() || !trouble_.ok()) return std::nullopt;
    const auto first = ready_.begin();
    const LogKey key = first->second;
    LogCursor& cursor = cursors_.at(key);
    const std::optional<LogIndexRecord> piece = cursor.Peek();
    if (!piece.has_value()) {
      ready_.erase(first);
      continue;
    }
    absl::StatusOr<v1::LogRecord> record = RecordOf(cursor, *piece);
    if (!record.ok()) {
      trouble_ = record.status();
      return std::nullopt;
    }
    ready_.erase(first);
    cursor.Advance();
    if (!cursor.Ended()) {
      const std::optional<LogIndexRecord> next = cursor.Peek();
      if (next.has_value()) {
        ready_[{key.attempt, next->time_us, key.rank, key.stream}] = key;
      } else {
        waiting_.insert(key);
      }
    }
    if (IsTooOld(*piece) && !record->end()) continue;
    if (KeepLastLines(*record)) return *std::move(record);
  }
}

bool LogMerge::IsTooOld(const LogIndexRecord& piece) const {
  return request_.since_ms() != 0 && piece.time_us / 1'000 < request_.since_ms();
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
  return !record.data().empty() || record.end();
}

absl::StatusOr<v1::LogRecord> LogMerge::RecordOf(LogCursor& cursor,
                                                 const LogIndexRecord& piece) const {
  const LogKey& key = cursor.Key();
  v1::LogRecord record;
  record.set_attempt(key.attempt);
  record.set_rank(key.rank);
  record.set_stream(key.stream);
  const auto node = node_of_.find({key.attempt, key.rank});
  if (node != node_of_.end()) record.set_node(node->second);
  record.set_offset(piece.offset);
  record.set_time_us(piece.time_us);
  record.set_dropped(piece.dropped);
  record.set_end(piece.end);
  ASSIGN_OR_RETURN(*record.mutable_data(), cursor.Read(piece));
  return record;
}

bool LogMerge::Complete() const {
  for (const LogKey& key : expected_) {
    const auto cursor = cursors_.find(key);
    if (cursor == cursors_.end() || !cursor->second.Ended()) return false;
  }
  for (const auto& [key, cursor] : cursors_) {
    if (!cursor.Ended()) return false;
  }
  return true;
}

}  // namespace muster::coordinator
