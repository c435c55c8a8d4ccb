#include "client/follow/log_fold.h"

#include <algorithm>
#include <utility>

#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kShortRanksBytes = 16;
constexpr size_t kLineOverheadBytes = 300;
// Bounds the search for a twin: one rank may repeat a line any number of times.
constexpr int kLooksMax = 64;
constexpr uint64_t kPlaceStep = uint64_t{1} << 32;

}  // namespace

bool LogFold::MayJoin(uint32_t rank, Place twin) {
  const auto own = by_rank_.find(rank);
  if (own == by_rank_.end()) return true;
  int looks = 0;
  for (auto line = own->second.rbegin(); line != own->second.rend(); ++line) {
    if (*line == twin || ++looks > kLooksMax) return false;
    if ((*line)->place < twin->place) return true;
    if ((*line)->line.ranks.size() > 1) return false;
  }
  return true;
}

LogFold::Place LogFold::Twin(const FoldedLine& line) {
  const auto equal = by_text_.find(line.text);
  if (equal == by_text_.end()) return waiting_.end();
  int looks = 0;
  for (const Place twin : equal->second) {
    if (++looks > kLooksMax) break;
    if (twin->line.attempt == line.attempt && twin->line.to_stderr == line.to_stderr &&
        line.time_us - twin->line.time_us <= kTwinsWithinUs && MayJoin(line.ranks[0], twin)) {
      return twin;
    }
  }
  return waiting_.end();
}

void LogFold::MoveBefore(uint32_t rank, Place twin) {
  for (const Place own : by_rank_[rank]) {
    if (own->place < twin->place) continue;
    const uint64_t before = twin == waiting_.begin() ? 0 : std::prev(twin)->place;
    waiting_.splice(twin, waiting_, own);
    own->since_ms = std::min(own->since_ms, twin->since_ms);
    own->place = before + (twin->place - before) / 2;
    if (own->place == before) NumberPlaces();
  }
}

void LogFold::NumberPlaces() {
  uint64_t place = 0;
  for (Waiting& each : waiting_) each.place = place += kPlaceStep;
}

void LogFold::Add(FoldedLine line, int64_t now_ms, std::vector<FoldedLine>* out) {
  while (!waiting_.empty() && line.time_us - waiting_.front().line.time_us > kTwinsWithinUs) {
    PopFirst(out);
  }
  ++lines_;
  const uint32_t rank = line.ranks[0];
  Place place = Twin(line);
  if (place != waiting_.end()) {
    MoveBefore(rank, place);
    place->line.ranks.push_back(rank);
  } else {
    bytes_ += line.text.size() * 2 + kLineOverheadBytes;
    const uint64_t last = waiting_.empty() ? 0 : waiting_.back().place;
    place = waiting_.insert(waiting_.end(), {std::move(line), now_ms, last + kPlaceStep});
    by_text_[place->line.text].push_back(place);
  }
  by_rank_[rank].push_back(place);
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
  const Place first = waiting_.begin();
  const auto equal = by_text_.find(first->line.text);
  equal->second.erase(std::find(equal->second.begin(), equal->second.end(), first));
  if (equal->second.empty()) by_text_.erase(equal);
  for (const uint32_t rank : first->line.ranks) {
    const auto own = by_rank_.find(rank);
    own->second.pop_front();
    if (own->second.empty()) by_rank_.erase(own);
  }
  bytes_ -= first->line.text.size() * 2 + kLineOverheadBytes;
  lines_ -= first->line.ranks.size();
  out->push_back(std::move(first->line));
  waiting_.pop_front();
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
