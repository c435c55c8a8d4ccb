#include "client/terminal/screen_frame.h"

#include "client/terminal/terminal.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrAppend;

// Private mode 2026; terminals that do not know it ignore it.
constexpr std::string_view kSyncBegin = "\033[?2026h";
constexpr std::string_view kSyncEnd = "\033[?2026l";
constexpr std::string_view kClearToEndOfLine = "\033[K";
constexpr std::string_view kClearBelow = "\033[J";

// Without color sequences (ESC [ … m).
size_t VisibleWidth(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const size_t escape = line.find("\033[");
    text += line.substr(0, escape);
    if (escape == std::string_view::npos) break;
    const size_t end = line.find('m', escape);
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return DisplayWidth(text);
}

}  // namespace

std::vector<std::string> FrameLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string FrameUpdate(const std::vector<std::string>& shown,
                        const std::vector<std::string>& lines) {
  std::string out;
  if (shown.empty()) StrAppend(&out, "\033[H", kClearBelow);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_new = i >= shown.size();
    if (!is_new && shown[i] == lines[i]) continue;
    StrAppend(&out, "\033[", i + 1, ";1H", lines[i]);
    // Never after a line that fills its row, because the cursor is still on the last character.
    if (!is_new && VisibleWidth(lines[i]) < VisibleWidth(shown[i])) out += kClearToEndOfLine;
  }
  if (lines.size() < shown.size()) {
    StrAppend(&out, "\033[", lines.size() + 1, ";1H", kClearBelow);
  }
  return out.empty() ? out : common::StrCat(kSyncBegin, out, kSyncEnd);
}

}  // namespace muster::client
