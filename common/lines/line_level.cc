#include "common/lines/line_level.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "common/lines/error_lines.h"
#include "common/lines/line_prefix.h"

namespace muster::common {
namespace {

constexpr size_t kLevelWithinBytes = 256;
constexpr std::string_view kTraceback = "Traceback (most recent call last):";

struct LevelWord {
  std::string_view word;
  LineLevel level;
};
constexpr LevelWord kLevelWords[] = {
    {"trace", LineLevel::kDebug},    {"debug", LineLevel::kDebug},  {"dbg", LineLevel::kDebug},
    {"verbose", LineLevel::kDebug},  {"info", LineLevel::kInfo},    {"notice", LineLevel::kInfo},
    {"warn", LineLevel::kWarn},      {"warning", LineLevel::kWarn}, {"err", LineLevel::kError},
    {"error", LineLevel::kError},    {"severe", LineLevel::kError}, {"fatal", LineLevel::kFatal},
    {"critical", LineLevel::kFatal}, {"crit", LineLevel::kFatal},   {"panic", LineLevel::kFatal},
    {"emerg", LineLevel::kFatal},    {"alert", LineLevel::kFatal},
};

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view WithoutSpace(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<LineLevel> GlogLevel(std::string_view line) {
  switch (GlogLetter(line)) {
    case 'V':
    case 'D':
      return LineLevel::kDebug;
    case 'I':
      return LineLevel::kInfo;
    case 'W':
      return LineLevel::kWarn;
    case 'E':
      return LineLevel::kError;
    case 'F':
    case 'C':
      return LineLevel::kFatal;
    default:
      return std::nullopt;
  }
}

// The numbers of pino and bunyan.
std::optional<LineLevel> NumberedLevel(std::string_view digits) {
  if (digits.size() != 2 || digits[1] != '0') return std::nullopt;
  switch (digits[0]) {
    case '1':
    case '2':
      return LineLevel::kDebug;
    case '3':
      return LineLevel::kInfo;
    case '4':
      return LineLevel::kWarn;
    case '5':
      return LineLevel::kError;
    case '6':
      return LineLevel::kFatal;
    default:
      return std::nullopt;
  }
}

// {"level":"error"}, {"severity": "ERROR"}, level=error.
std::optional<LineLevel> KeyedLevel(std::string_view line) {
  const bool is_json = line.starts_with('{');
  for (const std::string_view key : {"level", "severity", "levelname", "lvl"}) {
    for (size_t at = line.find(key); at != line.npos; at = line.find(key, at + 1)) {
      if (at > 0 && line[at - 1] != (is_json ? '"' : ' ')) continue;
      std::string_view value = line.substr(at + key.size());
      if (is_json && value.starts_with('"')) value.remove_prefix(1);
      value = WithoutSpace(value);
      if (!value.starts_with(is_json ? ':' : '=')) continue;
      value = WithoutSpace(value.substr(1));
      if (value.starts_with('"')) value.remove_prefix(1);
      size_t end = 0;
      while (end < value.size() && (IsLetter(value[end]) || IsDigit(value[end]))) ++end;
      if (const auto number = NumberedLevel(value.substr(0, end)); number && is_json) return number;
      if (const auto named = LevelNamed(value.substr(0, end)); named) return named;
    }
  }
  return std::nullopt;
}

bool IsCapitals(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Whether `before` is a time and its punctuation: "[2024-05-01T10:00:00Z ", "Nov 22 10:00 ".
bool IsOnlyTime(std::string_view before) {
  size_t letters = 0;
  bool has_digit = false;
  for (const char c : before) {
    has_digit = has_digit || IsDigit(c);
    if (!IsLetter(c)) {
      letters = 0;
      const bool frames = std::string_view(" \t:.,+-/[](){}<>|").find(c) != std::string_view::npos;
      if (!frames && !IsDigit(c)) return false;
    } else if (++letters > 3 || (letters == 1 && (c < 'A' || c > 'Z'))) {
      return false;
    }
  }
  return has_digit;
}

// True for a word in brackets; in capitals at the start of the line, after a time or after
// punctuation; or below error before a colon, as compilers print it ("warning:"). "Error:" is left
// to ReadsAsError, which recognizes measurements.
bool StandsAsLevel(std::string_view word, LineLevel level, std::string_view before,
                   std::string_view behind) {
  const std::string_view near = WithoutSpace(before);
  const std::string_view next = WithoutSpace(behind);
  const char left = near.empty() ? '\0' : near.back();
  const char right = next.empty() ? '\0' : next.front();
  if ((left == '[' && right == ']') || (left == '<' && right == '>')) return true;
  const bool at_start =
      near.empty() || std::string_view(":])|-").find(left) != std::string_view::npos;
  if (IsCapitals(word) && (at_start || IsOnlyTime(before))) {
    return behind.empty() ||
           std::string_view(": ]|)-\t,").find(behind[0]) != std::string_view::npos;
  }
  return level < LineLevel::kError && at_start && behind.starts_with(':');
}

std::optional<LineLevel> WordLevel(std::string_view line) {
  for (size_t at = 0; at < line.size();) {
    if (!IsLetter(line[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < line.size() && (IsLetter(line[end]) || IsDigit(line[end]) || line[end] == '_')) {
      ++end;
    }
    const std::string_view word = line.substr(at, end - at);
    const std::string_view behind = line.substr(end);
    if (word.ends_with("Warning") && behind.starts_with(':')) return LineLevel::kWarn;
    if (const auto level = LevelNamed(word);
        level && StandsAsLevel(word, *level, line.substr(0, at), behind)) {
      return level;
    }
    at = end;
  }
  return std::nullopt;
}

}  // namespace

std::optional<LineLevel> LevelNamed(std::string_view word) {
  if (word.size() < 3 || word.size() > 8) return std::nullopt;
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const LevelWord& known : kLevelWords) {
    if (known.word == lower) return known.level;
  }
  return std::nullopt;
}

std::optional<LineLevel> LevelOf(std::string_view line) {
  // After a carriage return, judge only what a terminal would still show.
  while (line.ends_with('\r')) line.remove_suffix(1);
  line = line.substr(line.find_last_of('\r') + 1).substr(0, kLevelWithinBytes);
  const std::string_view text = WithoutSpace(WithoutRankPrefix(line));
  if (text.empty()) return std::nullopt;
  if (text.starts_with(kTraceback)) return LineLevel::kError;
  if (const auto glog = GlogLevel(text); glog) return glog;
  if (const auto keyed = KeyedLevel(text); keyed) return keyed;
  if (const auto word = WordLevel(text); word) return word;
  if (ReadsAsError(text)) return LineLevel::kError;
  return std::nullopt;
}

LineLevel LevelTracker::Next(std::string_view line) {
  const std::string_view text = WithoutRankPrefix(line);
  const bool is_marked_rank = text.size() != line.size();
  // After "[rank0]:" one space belongs to the prefix.
  const bool indented = text.starts_with('\t') || text.starts_with(is_marked_rank ? "  " : " ");
  const std::optional<LineLevel> own = LevelOf(line);
  const bool has_text = !WithoutSpace(text).empty();
  // An indented line of a traceback quotes source code: "    raise ValueError('…')".
  if (indented && last_ >= LineLevel::kError) return last_;
  if (own.has_value()) return last_ = *own;
  if (indented && has_text) return last_;
  // A blank line separates chained tracebacks.
  if (!has_text && last_ >= LineLevel::kError) return last_;
  if (text.starts_with("During handling of the above exception") ||
      text.starts_with("The above exception was the direct cause")) {
    return last_ = LineLevel::kError;
  }
  return last_ = LineLevel::kInfo;
}

}  // namespace muster::common
