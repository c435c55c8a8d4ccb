#include "client/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

std::string_view Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool MayColor(std::string_view color, bool is_tty) {
  if (color == "always") return true;
  if (color == "never") return false;
  if (!Variable("NO_COLOR").empty()) return false;
  if (const std::string_view force = Variable("CLICOLOR_FORCE"); !force.empty() && force != "0")
    return true;
  if (Variable("CLICOLOR") == "0" || Variable("TERM") == "dumb") return false;
  return is_tty;
}

struct Range {
  uint32_t first;
  uint32_t last;
};
// Combining marks and other characters of zero width.
constexpr Range kZeroWidth[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A},  {0x064B, 0x065F},
    {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},  {0x200B, 0x200F},
    {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
// East Asian wide and full-width characters, and emoji (Unicode TR 11).
constexpr Range kDoubleWidth[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},  {0x23E9, 0x23EC}, {0x2E80, 0x303E},   {0x3041, 0x33FF},
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},  {0xA000, 0xA4CF}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE30, 0xFE4F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
    {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <size_t kCount>
bool In(const Range (&ranges)[kCount], uint32_t point) {
  return std::any_of(std::begin(ranges), std::end(ranges), [point](const Range& range) {
    return point >= range.first && point <= range.last;
  });
}

// The code point at the start of `text` (at least one byte) and its length; an invalid byte counts
// as itself.
std::pair<uint32_t, size_t> Decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length == 1 || length > text.size()) return {lead, 1};
  uint32_t point = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) point = (point << 6) | (byte(i) & 0x3F);
  return {point, length};
}

size_t WidthOf(uint32_t point) {
  if (point < 0x300) return 1;
  if (In(kZeroWidth, point)) return 0;
  return In(kDoubleWidth, point) ? 2 : 1;
}

// Length of a color sequence (ESC [ digits ; digits m) at the start of `text`, or 0.
size_t ColorSequence(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  for (size_t i = 2; i < text.size() && i < 32; ++i) {
    if (text[i] == 'm') return i + 1;
    if (text[i] != ';' && (text[i] < '0' || text[i] > '9')) return 0;
  }
  return 0;
}

}  // namespace

Terminal DetectTerminal(std::string_view color) {
  Terminal terminal;
  terminal.out_is_tty = isatty(STDOUT_FILENO) == 1;
  terminal.err_is_tty = isatty(STDERR_FILENO) == 1;
  terminal.color_out = MayColor(color, terminal.out_is_tty);
  terminal.color_err = MayColor(color, terminal.err_is_tty);
  winsize size{};
  if (terminal.out_is_tty) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  if (const int columns = std::atoi(std::string(Variable("COLUMNS")).c_str()); columns > 0) {
    terminal.width = std::clamp(columns, 20, 2000);
  } else if (size.ws_col > 0) {
    terminal.width = std::max<size_t>(size.ws_col, 20);
  }
  if (const int lines = std::atoi(std::string(Variable("LINES")).c_str()); lines > 0) {
    terminal.height = std::clamp(lines, 4, 2000);
  } else if (size.ws_row > 0) {
    terminal.height = std::max<size_t>(size.ws_row, 4);
  }
  return terminal;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const auto [point, length] = Decode(text);
    width += WidthOf(point);
    text.remove_prefix(length);
  }
  return width;
}

std::string Shorten(std::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t used = 0;
  size_t end = 0;
  while (end < text.size()) {
    const auto [point, length] = Decode(text.substr(end));
    if (used + WidthOf(point) > width - 1) break;
    used += WidthOf(point);
    end += length;
  }
  return common::StrCat(text.substr(0, end), "…");
}

std::string ShortenMiddle(std::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width < 3) return Shorten(text, width);
  const size_t tail = (width - 1) / 2;
  std::string_view rest = text;
  while (DisplayWidth(rest) > tail) rest.remove_prefix(Decode(rest).second);
  // A mark of zero width belongs to the character that was cut off.
  while (!rest.empty() && WidthOf(Decode(rest).first) == 0) {
    rest.remove_prefix(Decode(rest).second);
  }
  return common::StrCat(Shorten(text, width - tail), rest);
}

std::string Filtered(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t kept = ColorSequence(text);
    if (kept > 0) {
      out.append(text.substr(0, kept));
      text.remove_prefix(kept);
      continue;
    }
    const size_t end = std::min(text.find('\033', 1), text.size());
    out += common::Printable(text.substr(0, end), /*keep_layout=*/true);
    text.remove_prefix(end);
  }
  return out;
}

std::string TerminalSafe(std::string_view line, bool color) {
  if (line.find('\033') == std::string_view::npos || !color) return common::Printable(line);
  std::string out;
  while (!line.empty()) {
    if (const size_t length = ColorSequence(line); length > 0) {
      out.append(line.substr(0, length));
      line.remove_prefix(length);
      continue;
    }
    const size_t end = std::min(line.find('\033', 1), line.size());
    out += common::Printable(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out + "\033[0m";
}

}  // namespace muster::client
