#include "common/lines/line_search.h"

#include <algorithm>
#include <utility>

namespace muster::common {
namespace {

constexpr size_t kFoundBytes = 64 << 10;  // lines are joined up to here

}  // namespace

// When the bytes of a text were written. Queries in roughly ascending order are cheap.
class LineSearch::Times {
 public:
  explicit Times(std::vector<TimeMark> marks) : marks_(std::move(marks)) {}

  int64_t At(size_t place) {
    if (marks_.empty()) return 0;
    while (next_ > 0 && marks_[next_].at > place) --next_;
    while (next_ + 1 < marks_.size() && marks_[next_ + 1].at <= place) ++next_;
    return marks_[next_].time_us;
  }
  // The marks of the text from `begin` on; its last part, from `open` on, keeps only its last time.
  std::vector<TimeMark> From(size_t begin, size_t open, size_t end) {
    std::vector<TimeMark> kept;
    if (begin >= end) return kept;
    kept.push_back({0, At(begin)});
    for (; next_ + 1 < marks_.size() && marks_[next_ + 1].at < open; ++next_) {
      const TimeMark& mark = marks_[next_ + 1];
      if (mark.time_us != kept.back().time_us) kept.push_back({mark.at - begin, mark.time_us});
    }
    if (open < end && At(end - 1) != kept.back().time_us) {
      kept.push_back({open - begin, At(end - 1)});
    }
    return kept;
  }

 private:
  std::vector<TimeMark> marks_;
  size_t next_ = 0;
};

struct LineSearch::Pass {
  std::string_view text;
  size_t begin;  // of the first line not searched yet
  size_t end;    // after the last line that can be searched
  Times times;
  std::deque<FoundLines>& found;
};

LineSearch::~LineSearch() { share_.kept_bytes -= kept_.size(); }

void LineSearch::Run(std::string_view text, const std::vector<TimeMark>& marks, bool cut,
                     std::deque<FoundLines>& found) {
  std::vector<TimeMark> all = std::move(kept_times_);
  kept_times_.clear();
  all.insert(all.end(), marks.begin(), marks.end());
  Pass pass{text, open_line_, text.size(), Times(std::move(all)), found};
  if (!cut) {
    const size_t newline = text.rfind('\n');
    const size_t open = newline == text.npos ? open_line_ : std::max(newline + 1, open_line_);
    const bool is_long = text.size() - open > kSearchedLineBytesMax;
    const bool is_much = text.size() - open + share_.kept_bytes > kSearchKeptBytesMax;
    if (!is_long && !is_much) pass.end = open;
  }
  Search(pass);
  Keep(pass);
}

void LineSearch::Search(Pass& pass) {
  const LineMatcher& matcher = *share_.matcher;
  const std::string_view text = pass.text.substr(0, pass.end);
  size_t at = pass.begin;
  if (matcher.NeedsEachLine()) {
    while (at < text.size()) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const bool wanted = matcher.Wants(text.substr(at, end - at), levels_);
      Lines(pass, at, std::min(end + 1, text.size()), wanted);
      at = end + 1;
    }
    return;
  }
  while (at < text.size()) {
    const auto line = matcher.Find(text, at);
    Lines(pass, at, line.has_value() ? line->begin : text.size(), false);
    if (!line.has_value()) return;
    at = std::min(line->end + 1, text.size());
    Lines(pass, line->begin, at, true);
  }
}

// The lines are either all selected or all not. Only an unfinished last line lacks its newline.
void LineSearch::Lines(Pass& pass, size_t from, size_t to, bool wanted) {
  while (from < to && (wanted || after_left_ > 0)) {
    const size_t end = std::min(pass.text.find('\n', from), to);
    const LinePlace line{from, std::min(end + 1, to)};
    if (wanted) {
      if (share_.matcher->Query().count_only) ++count_;  // otherwise FoundLines counts them
      EmitBefore(pass, from);
      after_left_ = share_.matcher->Query().lines_after;
    } else {
      --after_left_;
    }
    Emit(pass, line, wanted);
    from = line.end;
  }
}

// Where the context before `begin` starts, without lines that were already returned.
size_t LineSearch::ContextBegin(const Pass& pass, size_t begin) const {
  const LineQuery& query = share_.matcher->Query();
  size_t from = begin;
  const size_t shown = shown_to_ > offset_ ? shown_to_ - offset_ : 0;
  for (uint32_t left = query.count_only ? 0 : query.lines_before; left > 0 && from > shown;
       --left) {
    const size_t newline = from < 2 ? pass.text.npos : pass.text.rfind('\n', from - 2);
    const size_t line = std::max(newline == pass.text.npos ? 0 : newline + 1, shown);
    if (begin - line > kContextBytesMax) break;
    from = line;
  }
  return from;
}

void LineSearch::EmitBefore(Pass& pass, size_t begin) {
  size_t from = ContextBegin(pass, begin);
  while (from < begin) {
    const size_t end = std::min(pass.text.find('\n', from), begin - 1) + 1;
    Emit(pass, {from, end}, false);
    from = end;
  }
}

void LineSearch::Emit(Pass& pass, LinePlace line, bool is_match) {
  shown_to_ = offset_ + line.end;
  if (share_.matcher->Query().count_only) return;
  const int64_t time_us = pass.times.At(line.end - 1);
  const std::string_view bytes = pass.text.substr(line.begin, line.end - line.begin);
  const uint64_t offset = offset_ + line.begin;
  if (!pass.found.empty() && Joins(pass.found.back(), offset, time_us, bytes.size())) {
    FoundLines& last = pass.found.back();
    last.bytes += bytes;
    last.end = shown_to_;
    last.matches += is_match ? 1 : 0;
    return;
  }
  pass.found.push_back({offset, shown_to_, time_us, std::string(bytes), is_match ? 1u : 0u});
}

bool LineSearch::Joins(const FoundLines& last, uint64_t offset, int64_t time_us,
                       size_t bytes) const {
  const LineQuery& query = share_.matcher->Query();
  const bool has_groups = query.lines_before + query.lines_after > 0;
  return last.time_us == time_us && last.bytes.size() + bytes <= kFoundBytes &&
         (last.end == offset || (!has_groups && last.bytes.back() == '\n'));
}

void LineSearch::Keep(Pass& pass) {
  const bool has_room = share_.kept_bytes < kSearchKeptBytesMax;
  const size_t from = has_room ? ContextBegin(pass, pass.end) : pass.end;
  kept_times_ = pass.times.From(from, pass.end, pass.text.size());
  std::string kept(pass.text.substr(from));
  share_.kept_bytes += kept.size();
  share_.kept_bytes -= kept_.size();
  kept_.swap(kept);
  open_line_ = pass.end - from;
  offset_ += from;
}

void LineSearch::SkipTo(uint64_t offset) {
  share_.kept_bytes -= kept_.size();
  std::string().swap(kept_);
  kept_times_.clear();
  open_line_ = 0;
  offset_ = offset;
  after_left_ = 0;
}

}  // namespace muster::common
