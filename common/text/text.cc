#include "common/text/text.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "common/text/strings.h"
#include "common/text/utf8.h"

namespace muster::common {
namespace {

// C0, DEL and the C1 range (U+0080..U+009F), which terminals obey too.
bool IsControl(std::string_view sequence) {
  const unsigned char lead = static_cast<unsigned char>(sequence[0]);
  if (lead < 0x20 || lead == 0x7F) return true;
  return lead == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

uint32_t CodePoint(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  uint32_t point = byte(0) & (0x7F >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) point = (point << 6) | (byte(i) & 0x3F);
  return point;
}

// Characters that are invisible or change how their neighbors are displayed: Unicode's general
// category Cf without the visible Arabic and Egyptian marks, and the two separators.
bool IsHidden(std::string_view sequence) {
  struct Range {
    uint32_t first, last;
  };
  static constexpr Range kHidden[] = {
      {0x00AD, 0x00AD},    // soft hyphen
      {0x061C, 0x061C},    // Arabic letter mark
      {0x180E, 0x180E},    // Mongolian vowel separator
      {0x200B, 0x200F},    // zero width, left-to-right and right-to-left mark
      {0x2028, 0x202E},    // line and paragraph separator, bidirectional embeddings and overrides
      {0x2060, 0x206F},    // word joiner, invisible operators, isolates, deprecated controls
      {0xFEFF, 0xFEFF},    // byte order mark
      {0xFFF9, 0xFFFB},    // interlinear annotation
      {0x1BCA0, 0x1BCA3},  // shorthand
      {0x1D173, 0x1D17A},  // musical
      {0xE0000, 0xE007F},  // tags
  };
  if (sequence.size() < 2) return false;
  const uint32_t point = CodePoint(sequence);
  return std::any_of(std::begin(kHidden), std::end(kHidden), [point](const Range& range) {
    return point >= range.first && point <= range.last;
  });
}

bool IsUtf8Without(std::string_view text, bool (*is_bad)(std::string_view)) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return false;
    if (is_bad(text.substr(0, length)) && text[0] != '\t') return false;
    text.remove_prefix(length);
  }
  return true;
}

bool IsControlOrHidden(std::string_view sequence) {
  return IsControl(sequence) || IsHidden(sequence);
}

}  // namespace

bool IsUtf8Text(std::string_view text) { return IsUtf8Without(text, IsControl); }

bool IsPathName(std::string_view name) {
  return !name.empty() && name[0] != '.' && IsCleanUtf8(name) &&
         name.find_first_of("/\t") == std::string_view::npos;
}

bool IsCleanUtf8(std::string_view text) { return IsUtf8Without(text, IsControlOrHidden); }

std::string Printable(std::string_view bytes, bool keep_layout) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8SequenceLength(bytes);
    const bool layout = keep_layout && (bytes[0] == '\n' || bytes[0] == '\t');
    if (length > 0 && (layout || !IsControlOrHidden(bytes.substr(0, length)))) {
      out.append(bytes.substr(0, length));
      bytes.remove_prefix(length);
      continue;
    }
    for (size_t i = 0; i < std::max<size_t>(length, 1); ++i) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(bytes[i]));
    }
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string PrintableStart(std::string_view bytes, size_t bytes_max) {
  return StrCat(Printable(bytes.substr(0, bytes_max)), bytes.size() > bytes_max ? "…" : "");
}

std::string Clipped(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return StrCat(text.substr(0, end), "…");
}

bool NestsDeeper(std::string_view json, size_t depth) {
  size_t open = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++open > depth) return true;
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
  }
  return false;
}

bool LooksSecret(std::string_view variable_name) {
  const std::string upper = absl::AsciiStrToUpper(ToAbsl(variable_name));
  for (std::string_view word : {"TOKEN", "KEY", "PASSWORD", "PASSWD", "SECRET", "CREDENTIAL"}) {
    if (upper.find(word) != std::string::npos) return true;
  }
  return false;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = 3;
  if (word.empty() || word.size() > 64) return best;
  for (std::string_view candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    const size_t longer = std::max(word.size(), candidate.size());
    const bool is_alike =
        2 * distance < longer || (distance == 1 && word.size() > 1 && candidate.size() > 1);
    if (distance < best_distance && is_alike) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view nearest) {
  return nearest.empty() ? "" : StrCat("; did you mean \"", nearest, "\"?");
}

std::string Counted(uint64_t count, std::string_view noun) {
  return StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace muster::common
