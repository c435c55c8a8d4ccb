// Selects the lines that a query asks for: by an RE2 pattern, by a minimum level, or as errors.
// Immutable; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/lines/line_level.h"
#include "common/lines/needle.h"

namespace re2 {
class RE2;
}

namespace muster::common {

struct LineQuery {
  std::string grep = {};  // RE2; empty: any line
  bool ignore_case = false;
  bool invert = false;  // of grep
  std::optional<LineLevel> least_level = {};
  bool errors = false;  // only lines that read as an error
  uint32_t lines_before = 0;
  uint32_t lines_after = 0;
  bool count_only = false;

  bool SelectsLines() const { return !grep.empty() || least_level.has_value() || errors; }
};

// limit: searching logs: a pattern; refused
inline constexpr size_t kGrepBytesMax = 4096;  // of a pattern
// limit: searching logs: a compiled pattern; refused
inline constexpr size_t kGrepMemoryBytesMax = 8 << 20;  // of a compiled one, caches included
inline constexpr uint32_t kContextLinesMax = 1000;

// A line in a text, without its newline.
struct LinePlace {
  size_t begin = 0;
  size_t end = 0;
};

class LineMatcher {
 public:
  // Errors: JC1019 for a pattern that is malformed or too large; JC1004 for too much context.
  static absl::StatusOr<std::shared_ptr<const LineMatcher>> Make(LineQuery query);
  ~LineMatcher();

  const LineQuery& Query() const { return query_; }
  // The first line at or after `from`, which is the start of a line, that the pattern matches. A
  // newline is never part of a match: each line is searched as if it were alone.
  std::optional<LinePlace> Find(std::string_view text, size_t from) const;
  // Whether Wants must see every line; otherwise Find is enough to select them.
  bool NeedsEachLine() const {
    return query_.grep.empty() || query_.invert || query_.least_level.has_value() || query_.errors;
  }
  // Whether the query selects this line. `levels` has seen all earlier lines of the stream.
  bool Wants(std::string_view line, LevelTracker& levels) const;

 private:
  explicit LineMatcher(LineQuery query);
  bool Matches(std::string_view line) const;
  // Where a match begins, or an earlier place of its line. npos: there is none.
  size_t FindMatch(std::string_view text, size_t from) const;

  const LineQuery query_;
  std::unique_ptr<re2::RE2> pattern_;
  // Each match begins with it; searching for it is much faster.
  Needle prefix_;
  bool is_literal_ = false;  // the prefix is the whole pattern
  // Below 0: too many lines contain the prefix. Only a guess: threads may overwrite each other's.
  mutable std::atomic<int64_t> prefix_credit_ = 0;
  // The pattern can distinguish a line's bounds from the text's, so each line is searched
  // separately.
  bool one_line_at_a_time_ = false;
};

}  // namespace muster::common
