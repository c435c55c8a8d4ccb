#include "client/launchers/script_lines.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrAppend;

// The position of `what` outside quotes, or npos.
size_t FindPlain(std::string_view text, std::string_view what) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && text.substr(i).starts_with(what)) return i;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
  }
  return std::string_view::npos;
}

// The word that ends the here-document of a line ("cat <<EOF"), or empty.
std::string HereDocument(std::string_view text) {
  const size_t feeds = FindPlain(text, "<<");
  const bool is_arithmetic = FindPlain(text, "((") < feeds;
  if (feeds == std::string_view::npos || is_arithmetic || text.substr(feeds).starts_with("<<<"))
    return "";
  text.remove_prefix(feeds + 2);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of("-\\'\" \t")));
  return std::string(text.begin(), std::find_if_not(text.begin(), text.end(), IsNameByte));
}

// How many more blocks (if, for, case, functions) are open after this line than before it.
int Deeper(const std::string& text) {
  int depth = absl::EndsWith(text, "{") ? 1 : 0;
  for (absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(";&|"))) {
    const std::vector<std::string> words =
        absl::StrSplit(part, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    size_t first = 0;
    while (first < words.size() && IsOneOf(words[first], {"then", "do", "else", "elif", "!"}))
      ++first;
    if (first == words.size()) continue;
    if (IsOneOf(words[first], {"if", "for", "while", "until", "case", "select"})) ++depth;
    if (IsOneOf(words[first], {"fi", "done", "esac", "}"})) --depth;
  }
  return depth;
}

}  // namespace

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<ScriptLine> LogicalLines(std::string_view content) {
  std::vector<ScriptLine> lines;
  int number = 0;
  bool continued = false;
  std::string fed_until;
  for (absl::string_view raw : absl::StrSplit(common::ToAbsl(content), '\n')) {
    ++number;
    absl::string_view text = absl::StripAsciiWhitespace(raw);
    if (!fed_until.empty()) {
      if (text == fed_until) fed_until.clear();
      continue;
    }
    if (!continued && (text.empty() || text[0] == '#')) continue;
    if (!continued) lines.push_back({number, ""});
    continued = absl::ConsumeSuffix(&text, "\\");
    std::string& line = lines.back().text;
    StrAppend(&line, line.empty() ? "" : " ", std::string(text));
    if (continued) continue;
    line = line.substr(0, FindPlain(line, " #"));
    fed_until = HereDocument(line);
  }
  int depth = 0;
  for (ScriptLine& line : lines) {
    const int before = depth;
    depth = std::max(0, depth + Deeper(line.text));
    line.is_in_block = before > 0 || depth > 0;
  }
  return lines;
}

}  // namespace muster::client
