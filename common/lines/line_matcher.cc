#include "common/lines/line_matcher.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/lines/error_lines.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr std::string_view kSpecial = "\n\\^$.|?*+()[]{}";
constexpr size_t kPrefixBytesMin = 3;
// How far apart lines with the prefix must be for the search by it to be worthwhile.
constexpr int64_t kPrefixEveryBytes = 512;
constexpr int64_t kPrefixCreditBytes = 64 << 10;

// What each match begins with; empty if that is not obvious.
std::string PrefixOf(std::string_view pattern) {
  size_t end = pattern.find_first_of(kSpecial);
  if (end == pattern.npos) return std::string(pattern);
  if (pattern.find('|') != pattern.npos) return {};
  // The special byte may allow the character before it to be absent.
  if (end > 0) --end;
  while (end > 0 && (static_cast<unsigned char>(pattern[end]) & 0xc0) == 0x80) --end;
  return end < kPrefixBytesMin ? std::string() : std::string(pattern.substr(0, end));
}

// Finds \A, \z, \C, \Q, and groups other than (?i), (?i:…), (?P…) and (?:…): they may match
// differently in a text of many lines than in a single line.
bool TellsLinesFromText(std::string_view pattern) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      if (std::string_view("AzCQ").find(pattern[i + 1]) != std::string_view::npos) return true;
      ++i;
    } else if (pattern.substr(i).starts_with("(?")) {
      const std::string_view group = pattern.substr(i + 2);
      if (!group.starts_with(':') && !group.starts_with('P') && !group.starts_with("i:") &&
          !group.starts_with("i)")) {
        return true;
      }
    }
  }
  return false;
}

re2::StringPiece Piece(std::string_view text) { return {text.data(), text.size()}; }

// The position of an unmatched parenthesis; npos: there is none.
size_t LoneParenthesis(std::string_view pattern) {
  std::vector<size_t> open;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      if (pattern.substr(i + 1).starts_with(']')) ++i;
    } else if (c == '(') {
      open.push_back(i);
    } else if (c == ')') {
      if (open.empty()) return i;
      open.pop_back();
    }
  }
  return open.empty() ? std::string_view::npos : open.back();
}

absl::Status BadPattern(const std::string& pattern, const re2::RE2::Options& options) {
  // Compiled again without the (?m) that Make prepends, so that the error quotes the given pattern.
  const re2::RE2 alone(pattern, options);
  std::string why = alone.ok() ? "it is too large" : alone.error();
  size_t place = std::string_view::npos;
  if (alone.error_code() == re2::RE2::ErrorMissingParen ||
      alone.error_code() == re2::RE2::ErrorUnexpectedParen) {
    place = LoneParenthesis(pattern);
  } else if (!alone.error_arg().empty() && alone.error_arg() != pattern) {
    place = pattern.find(alone.error_arg());
  }
  if (place != std::string_view::npos) why = StrCat(why, " (at byte ", place + 1, ")");
  return MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1019",
       .what = StrCat("--grep \"", pattern, "\" is not a regular expression"),
       .why = std::move(why),
       .fix = "correct it (RE2 syntax: https://github.com/google/re2/wiki/Syntax), or put a \\ "
              "before each special character that stands for itself"});
}

}  // namespace

LineMatcher::LineMatcher(LineQuery query) : query_(std::move(query)) {}
LineMatcher::~LineMatcher() = default;

absl::StatusOr<std::shared_ptr<const LineMatcher>> LineMatcher::Make(LineQuery query) {
  if (std::max(query.lines_before, query.lines_after) > kContextLinesMax) {
    return MakeProblem(absl::StatusCode::kInvalidArgument,
                       {.code = "JC1004",
                        .what = "too many lines of context",
                        .why = StrCat("at most ", kContextLinesMax, " before and after a line")});
  }
  std::shared_ptr<LineMatcher> matcher(new LineMatcher(std::move(query)));
  const std::string& pattern = matcher->query_.grep;
  if (pattern.empty()) return matcher;
  if (pattern.size() > kGrepBytesMax) {
    return MakeProblem(absl::StatusCode::kInvalidArgument,
                       {.code = "JC1019",
                        .what = StrCat("--grep has a pattern of ", pattern.size(), " bytes"),
                        .why = StrCat("at most ", kGrepBytesMax, " are allowed"),
                        .fix = "use a shorter pattern"});
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_never_nl(true);
  options.set_max_mem(kGrepMemoryBytesMax);
  options.set_case_sensitive(!matcher->query_.ignore_case);
  // Captures would cost RE2 a second pass.
  options.set_never_capture(true);
  matcher->pattern_ = std::make_unique<re2::RE2>(StrCat("(?m)", pattern), options);
  if (!matcher->pattern_->ok()) return BadPattern(pattern, options);
  matcher->one_line_at_a_time_ = TellsLinesFromText(pattern);
  if (!matcher->query_.ignore_case) {
    std::string prefix = PrefixOf(pattern);
    matcher->is_literal_ = prefix == pattern;
    matcher->prefix_ = Needle(std::move(prefix));
  }
  return matcher;
}

size_t LineMatcher::FindMatch(std::string_view text, size_t from) const {
  if (is_literal_) return prefix_.Find(text, from);
  while (!prefix_.empty() && prefix_credit_.load(std::memory_order_relaxed) >= 0) {
    const size_t at = prefix_.Find(text, from);
    const size_t reached = std::min(at, text.size());
    const int64_t credit = prefix_credit_.load(std::memory_order_relaxed) +
                           static_cast<int64_t>(reached - from) - kPrefixEveryBytes;
    prefix_credit_.store(std::min(credit, kPrefixCreditBytes), std::memory_order_relaxed);
    if (at == text.npos) return at;
    const size_t end = std::min(text.find('\n', at), text.size());
    if (pattern_->Match(Piece(text), at, end, re2::RE2::UNANCHORED, nullptr, 0)) return at;
    from = end;
  }
  re2::StringPiece hit;
  if (from >= text.size() ||
      !pattern_->Match(Piece(text), from, text.size(), re2::RE2::UNANCHORED, &hit, 1)) {
    return text.npos;
  }
  const auto at = static_cast<size_t>(hit.data() - text.data());
  // An empty match after the last newline: no line begins there.
  return at >= text.size() && text.back() == '\n' ? text.npos : at;
}

bool LineMatcher::Matches(std::string_view line) const {
  return pattern_->Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, nullptr, 0);
}

std::optional<LinePlace> LineMatcher::Find(std::string_view text, size_t from) const {
  while (from < text.size()) {
    size_t at = from;
    if (one_line_at_a_time_) {
      const size_t end = std::min(text.find('\n', from), text.size());
      if (Matches(text.substr(from, end - from))) return LinePlace{from, end};
      from = end + 1;
      continue;
    }
    at = FindMatch(text, from);
    if (at == text.npos) return std::nullopt;
    const size_t newline = at == 0 ? text.npos : text.rfind('\n', at - 1);
    const size_t begin = newline == text.npos ? 0 : newline + 1;
    return LinePlace{std::max(begin, from), std::min(text.find('\n', at), text.size())};
  }
  return std::nullopt;
}

bool LineMatcher::Wants(std::string_view line, LevelTracker& levels) const {
  const bool has_level = !query_.least_level || levels.Next(line) >= *query_.least_level;
  if (!has_level) return false;
  if (!query_.grep.empty() && Matches(line) == query_.invert) return false;
  return !query_.errors || ReadsAsError(line.substr(0, 4096));
}

}  // namespace muster::common
