#include "client/log_fold.h"

#include <algorithm>
#include <utility>

#include "common/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kShortRanksBytes = 16;
constexpr size_t kLineOverheadBytes = 200;

}  // namespace

FoldedLine* LogFold::Twin(const FoldedLine& line) {
  const auto equal = by_text_.find(line.text);
  if (equal == by_text_.end()) return nullptr;
  const auto own = behind_.find(line.ranks[0]);
  const uint64_t least = own == behind_.end() ? 0 : own->second;
  for (const uint64_t number : equal->second) {
    if (number < least) continue;
    FoldedLine& candidate = waiting_[number - first_].line;
    if (candidate.attempt != line.attempt || candidate.to_stderr != line.to_stderr ||
        line.time_us - candidate.time_us > kTwinsWithinUs) {
      continue;
    }
    behind_[line.ranks[0]] = number + 1;
    return &candidate;
  }
  return nullptr;
}

void LogFold::Add(FoldedLine line, int64_t now_ms, std::vector<FoldedLine>* out) {
  while (!waiting_.empty() && line.time_us - waiting_.front().line.time_us > kTwinsWithinUs) {
    PopFirst(out);
  }
  ++lines_;
  if (FoldedLine* twin = Twin(line); twin != nullptr) {
    twin->ranks.push_back(line.ranks[0]);
  } else {
    const uint64_t number = first_ + waiting_.size();
    by_text_[line.text].push_back(number);
    behind_[line.ranks[0]] = number + 1;
    bytes_ += line.text.size() * 2 + kLineOverheadBytes;
    waiting_.push_back({std::move(line), now_ms});
  }
  while (!waiting_.empty() && (waiting_.front().line.ranks.size() >= ranks_ ||
                               bytes_ > kWaitingBytesMax || lines_ > kWaitingLinesMax)) {
    PopFirst(out);
  }
  Due(now_ms, out);
}

std::optional<int64_t> LogFold::DueMs() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().since_ms + kWaitMs;
}

void LogFold::Due(int64_t now_ms, std::vector<FoldedLine>* out) {
  while (!waiting_.empty() && waiting_.front().since_ms + kWaitMs <= now_ms) PopFirst(out);
}

void LogFold::Flush(std::vector<FoldedLine>* out) {
  while (!waiting_.empty()) PopFirst(out);
}

void LogFold::PopFirst(std::vector<FoldedLine>* out) {
  FoldedLine& line = waiting_.front().line;
  const auto equal = by_text_.find(line.text);
  equal->second.pop_front();
  if (equal->second.empty()) by_text_.erase(equal);
  bytes_ -= line.text.size() * 2 + kLineOverheadBytes;
  lines_ -= line.ranks.size();
  out->push_back(std::move(line));
  waiting_.pop_front();
  ++first_;
}

std::string RanksText(std::vector<uint32_t> ranks, size_t all) {
  if (ranks.size() >= all) return StrCat("[", ranks.size(), " ranks]");
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size() && text.size() <= kShortRanksBytes;) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    common::StrAppend(&text, text.empty() ? "" : ",", ranks[i]);
    if (last > i) common::StrAppend(&text, last == i + 1 ? "," : "-", ranks[last]);
    i = last + 1;
  }
  if (text.size() <= kShortRanksBytes) return StrCat("[", text, "]");
  return StrCat("[", ranks.size(), " of ", all, " ranks]");
}

}  // namespace muster::client
