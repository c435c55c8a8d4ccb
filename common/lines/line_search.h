// Searches one stream of bytes for lines, block by block as it grows: lines that span blocks are
// joined, and the selected ones are returned with their time and offset. Keeps only the unfinished
// line and the lines that may become context. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/lines/line_matcher.h"

namespace muster::common {

// An unfinished line longer than this is searched in parts, each as a separate line.
// limit: searching logs: a searched line; a longer one is searched in parts
inline constexpr size_t kSearchedLineBytesMax = 1 << 20;
// What all streams of one query together may keep between blocks; above it, an unfinished line is
// searched as if it ended there.
// limit: searching logs: unfinished lines of all ranks
inline constexpr size_t kSearchKeptBytesMax = 16 << 20;
inline constexpr size_t kContextBytesMax = 64 << 10;  // before a line, per stream

// Bytes from `at` on were written at this time.
struct TimeMark {
  size_t at = 0;
  int64_t time_us = 0;
};

// Whole lines of one time, in order. With context they are consecutive, so that a reader sees where
// a group ends; otherwise lines that were not found may have stood between them.
struct FoundLines {
  uint64_t offset = 0;  // in the stream: of the first one
  uint64_t end = 0;     // behind the last one
  int64_t time_us = 0;
  std::string bytes;     // with their newlines
  uint64_t matches = 0;  // lines among them that the query selects; the others are context
};

// What the streams of one query share.
struct SearchShare {
  explicit SearchShare(std::shared_ptr<const LineMatcher> of) : matcher(std::move(of)) {}

  const std::shared_ptr<const LineMatcher> matcher;
  size_t kept_bytes = 0;
};

class LineSearch {
 public:
  // `offset`: the stream's first byte to search. `share` must outlive this.
  LineSearch(SearchShare& share, uint64_t offset) : share_(share), offset_(offset) {}
  ~LineSearch();
  LineSearch(const LineSearch&) = delete;

  // Searches `text`: Kept() followed by new bytes. `marks` are their times, the first one at or
  // before the first new byte. `cut`: the last line is complete, even without a newline.
  void Run(std::string_view text, const std::vector<TimeMark>& marks, bool cut,
           std::deque<FoundLines>& found);
  const std::string& Kept() const { return kept_; }
  bool HasOpenLine() const { return open_line_ < kept_.size(); }
  // All lines before this offset have been searched.
  uint64_t SearchedTo() const { return offset_ + open_line_; }
  // Continues at `offset`, after a gap; call it after a Run with `cut`.
  void SkipTo(uint64_t offset);
  // Lines found since the last call, if the query only counts them.
  uint64_t TakeCount() { return std::exchange(count_, 0); }

 private:
  class Times;
  struct Pass;
  void Search(Pass& pass);
  void Lines(Pass& pass, size_t from, size_t to, bool wanted);
  void Emit(Pass& pass, LinePlace line, bool is_match);
  // Whether a line belongs to the lines that were found last.
  bool Joins(const FoundLines& last, uint64_t offset, int64_t time_us, size_t bytes) const;
  void EmitBefore(Pass& pass, size_t begin);
  size_t ContextBegin(const Pass& pass, size_t begin) const;
  void Keep(Pass& pass);

  SearchShare& share_;
  uint64_t offset_;       // of kept_[0]
  std::string kept_;      // lines that may become context, then the unfinished line
  size_t open_line_ = 0;  // where that begins in kept_
  std::vector<TimeMark> kept_times_;
  LevelTracker levels_;
  uint64_t shown_to_ = 0;  // lines before this offset were already returned
  uint32_t after_left_ = 0;
  uint64_t count_ = 0;
};

}  // namespace muster::common
