#include "tree/ignore_pattern.h"

#include <algorithm>
#include <utility>

#include "tree/names.h"

namespace muster::tree {
namespace {

constexpr std::string_view kSpecial = "*?[\\";

// Spaces at the end do not count unless the last one is escaped.
std::string_view WithoutTrailingSpaces(std::string_view line) {
  size_t spaces = std::string_view::npos;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == ' ') {
      if (spaces == std::string_view::npos) spaces = i;
      continue;
    }
    spaces = std::string_view::npos;
    if (line[i] == '\\' && ++i == line.size()) return line;
  }
  return line.substr(0, spaces);
}

bool InNamedClass(std::string_view name, unsigned char c, bool* known) {
  const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z',
             digit = c >= '0' && c <= '9';
  const bool graph = c > 0x20 && c < 0x7F;
  const std::pair<std::string_view, bool> classes[] = {
      {"alnum", upper || lower || digit},
      {"alpha", upper || lower},
      {"blank", c == ' ' || c == '\t'},
      {"cntrl", c < 0x20 || c == 0x7F},
      {"digit", digit},
      {"graph", graph},
      {"lower", lower},
      {"print", graph || c == ' '},
      {"punct", graph && !upper && !lower && !digit},
      {"space", c == ' ' || c == '\t' || c == '\n' || c == '\r'},  // like git
      {"upper", upper},
      {"xdigit", digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')},
  };
  for (const auto& [word, member] : classes) {
    if (word == name) return member;
  }
  *known = false;
  return false;
}

// Reads "[:alpha:]" from `at`, which is the position of the inner "[". kNo: it is something else.
enum class Named { kYes, kNo, kMalformed };
Named ReadNamedClass(std::string_view glob, size_t* at, std::bitset<256>* members) {
  const size_t begin = *at + 2;
  const size_t close = glob.find(']', begin);
  if (close == std::string_view::npos) return Named::kMalformed;
  if (close == begin || glob[close - 1] != ':') return Named::kNo;
  const std::string_view name = glob.substr(begin, close - 1 - begin);
  bool known = true;
  for (int c = 1; c < 256; ++c) {
    if (InNamedClass(name, static_cast<unsigned char>(c), &known)) {
      members->set(static_cast<size_t>(c));
    }
  }
  if (!known) return Named::kMalformed;
  *at = close;
  return Named::kYes;
}

}  // namespace

std::optional<IgnorePattern> IgnorePattern::Parse(std::string_view line) {
  line = line.substr(0, line.find('\0'));
  if (line.empty() || line[0] == '#' || line.size() > kPatternBytesMax) return std::nullopt;
  line = WithoutTrailingSpaces(line);
  IgnorePattern pattern;
  if (!line.empty() && line[0] == '!') {
    pattern.negative_ = true;
    line.remove_prefix(1);
  }
  if (!line.empty() && line.back() == '/') {
    pattern.directories_only_ = true;
    line.remove_suffix(1);
  }
  if (line.empty()) return std::nullopt;
  pattern.any_depth_ = line.find('/') == std::string_view::npos;
  if (line[0] == '/') line.remove_prefix(1);
  if (pattern.any_depth_ && line[0] == '*' &&
      line.find_first_of(kSpecial, 1) == std::string_view::npos) {
    pattern.is_suffix_ = true;
    pattern.literal_ = line.substr(1);
    return pattern;
  }
  const size_t special = std::min(line.find_first_of(kSpecial), line.size());
  pattern.literal_ = line.substr(0, special);
  pattern.has_glob_ = special < line.size();
  if (pattern.has_glob_ && !pattern.Compile(line.substr(special))) return std::nullopt;
  return pattern;
}

bool IgnorePattern::Compile(std::string_view glob) {
  Segment segment;
  bool stars_alone = false;  // the segment so far is one run of at least two stars
  const auto finish = [&] {
    segment.end = static_cast<uint32_t>(tokens_.size());
    segment.any_directories = stars_alone && segment.end == segment.begin + 1;
    segments_.push_back(segment);
    segment.begin = segment.end;
    stars_alone = false;
  };
  for (size_t at = 0; at < glob.size();) {
    char c = glob[at++];
    if (c == '*') {
      const size_t end = std::min(glob.find_first_not_of('*', at), glob.size());
      stars_alone = tokens_.size() == segment.begin && end > at;
      tokens_.push_back({Token::kStar});
      at = end;
    } else if (c == '?') {
      tokens_.push_back({Token::kAny});
    } else if (c == '[') {
      if (!CompileClass(glob, &at)) return false;
    } else {
      if (c == '\\') {
        if (at == glob.size()) return false;
        c = glob[at++];
      }
      if (c == '/') {
        finish();
      } else {
        tokens_.push_back({Token::kByte, c});
      }
    }
  }
  finish();
  return true;
}

// The quirks are wildmatch's: "[]-a]", "[!^]", "[a-]", "[[:alpha:]x]", a "\" before any byte.
bool IgnorePattern::CompileClass(std::string_view glob, size_t* at) {
  std::bitset<256> members;
  const auto byte = [&](size_t i) {
    return i < glob.size() ? static_cast<unsigned char>(glob[i]) : static_cast<unsigned char>(0);
  };
  size_t i = *at;
  const bool negated = byte(i) == '!' || byte(i) == '^';
  if (negated) ++i;
  unsigned char previous = 0;
  do {
    unsigned char c = byte(i);
    if (c == 0) return false;
    if (c == '\\') {
      c = byte(++i);
      if (c == 0) return false;
      members.set(c);
    } else if (c == '-' && previous != 0 && byte(i + 1) != 0 && byte(i + 1) != ']') {
      c = byte(++i);
      if (c == '\\') c = byte(++i);
      if (c == 0) return false;
      for (int in = previous; in <= c; ++in) members.set(static_cast<size_t>(in));
      c = 0;
    } else if (c == '[' && byte(i + 1) == ':') {
      const Named named = ReadNamedClass(glob, &i, &members);
      if (named == Named::kMalformed) return false;
      if (named == Named::kNo) members.set('[');
      if (named == Named::kYes) c = 0;
    } else {
      members.set(c);
    }
    previous = c;
    ++i;
  } while (byte(i) != ']');
  if (negated) members.flip();
  *at = i + 1;
  tokens_.push_back({Token::kClass, 0, static_cast<uint16_t>(classes_.size())});
  classes_.push_back(members);
  return true;
}

bool IgnorePattern::Matches(std::string_view path, bool is_directory) const {
  if (directories_only_ && !is_directory) return false;
  if (any_depth_) path = NameOf(path);
  if (is_suffix_) return path.ends_with(literal_);
  if (!has_glob_) return path == literal_;
  if (!path.starts_with(literal_)) return false;
  return MatchesSegments(path.substr(literal_.size()));
}

// A "**" matches as little as possible: the part after it, up to the next "**", has a fixed number of
// components, so a later place for that part is never better.
bool IgnorePattern::MatchesSegments(std::string_view path) const {
  constexpr size_t kNone = std::string_view::npos;
  const auto next = [&](size_t at) {
    const size_t slash = path.find('/', at);
    return slash == kNone ? kNone : slash + 1;
  };
  size_t at = 0, in = 0, retry_at = kNone, retry_in = 0;
  while (at != kNone) {
    if (in < segments_.size() && segments_[in].any_directories) {
      if (++in == segments_.size()) return true;
      retry_at = at;
      retry_in = in;
      continue;
    }
    const size_t end = std::min(path.find('/', at), path.size());
    if (in < segments_.size() && MatchesSegment(segments_[in], path.substr(at, end - at))) {
      ++in;
      at = next(at);
    } else if (retry_at != kNone) {
      at = retry_at = next(retry_at);
      in = retry_in;
    } else {
      return false;
    }
  }
  return in == segments_.size();
}

bool IgnorePattern::MatchesToken(const Token& token, char c) const {
  switch (token.type) {
    case Token::kByte:
      return token.byte == c;
    case Token::kAny:
      return true;
    case Token::kClass:
      return classes_[token.class_index].test(static_cast<unsigned char>(c));
    case Token::kStar:
      break;
  }
  return false;
}

bool IgnorePattern::MatchesSegment(const Segment& segment, std::string_view name) const {
  size_t in = segment.begin, at = 0, retry_in = 0, retry_at = std::string_view::npos;
  while (at < name.size()) {
    if (in < segment.end && tokens_[in].type == Token::kStar) {
      retry_in = ++in;
      retry_at = at;
    } else if (in < segment.end && MatchesToken(tokens_[in], name[at])) {
      ++in;
      ++at;
    } else if (retry_at != std::string_view::npos) {
      at = ++retry_at;
      in = retry_in;
    } else {
      return false;
    }
  }
  while (in < segment.end && tokens_[in].type == Token::kStar) ++in;
  return in == segment.end;
}

}  // namespace muster::tree
