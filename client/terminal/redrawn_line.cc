#include "client/terminal/redrawn_line.h"

#include <algorithm>
#include <utility>

namespace muster::client {
namespace {

constexpr std::string_view kCursorUp = "\033[A";
constexpr std::string_view kLineControls[] = {kCursorUp, "\033[K", "\033[0K", "\033[1K", "\033[2K"};

// The start of the last state in a line that does not end with carriage returns.
size_t LastStateBegin(std::string_view line) {
  const size_t redraw = line.rfind('\r');
  return redraw == std::string_view::npos ? 0 : redraw + 1;
}

std::string_view WithoutEnd(std::string_view line) {
  return line.substr(0, line.find_last_not_of('\r') + 1);
}

std::string Shown(std::string_view state) {
  std::string text(state);
  for (const std::string_view control : kLineControls) {
    for (size_t at = 0; (at = text.find(control, at)) != std::string::npos;) {
      text.erase(at, control.size());
    }
  }
  return text.find_first_not_of(' ') == std::string::npos ? "" : text;
}

// Removes overwritten states. What remains is still a redrawn line.
void ForgetStates(std::string* line) {
  if (const size_t begin = LastStateBegin(WithoutEnd(*line)); begin > 1) line->erase(0, begin - 1);
}

// True for a bar that its writer has removed, and for a row that was never written.
bool IsErased(const std::string& line) {
  return line.find('\r') != std::string::npos &&
         Shown(WithoutEnd(line).substr(LastStateBegin(WithoutEnd(line)))).empty();
}

}  // namespace

bool IsRedrawn(std::string_view line) {
  return WithoutEnd(line).find('\r') != std::string_view::npos;
}

std::string ShownState(std::string_view line,
                       const std::function<bool(std::string_view state)>& wants) {
  line = WithoutEnd(line);
  const std::string_view last = line.substr(LastStateBegin(line));
  while (wants && !line.empty()) {
    const size_t begin = LastStateBegin(line);
    if (wants(line.substr(begin))) return Shown(line.substr(begin));
    line = WithoutEnd(line.substr(0, begin));
  }
  return Shown(last);
}

bool OpenLines::Passes(std::string_view text) const {
  return rows_.empty() && (!redraws_ || text.find(kCursorUp) == std::string_view::npos);
}

void OpenLines::Append(std::string_view text) {
  if (rows_.empty()) rows_.emplace_back();
  while (true) {
    const size_t up = redraws_ ? text.find(kCursorUp) : std::string_view::npos;
    rows_[row_] += text.substr(0, up);
    if (redraws_) ForgetStates(&rows_[row_]);
    if (up == std::string_view::npos) return;
    MoveUp();
    text.remove_prefix(up + kCursorUp.size());
  }
}

void OpenLines::MoveUp() {
  if (row_ > 0) {
    --row_;
  } else if (rows_.size() < kRowsMax) {
    rows_.emplace(rows_.begin());  // reopens a line that had been ended
  }
  rows_[row_] += '\r';
}

void OpenLines::MoveDown() { rows_[++row_] += '\r'; }

std::vector<std::string> OpenLines::Take() {
  std::vector<std::string> lines = std::exchange(rows_, {});
  row_ = 0;
  if (redraws_) std::erase_if(lines, [](const std::string& line) { return IsErased(line); });
  return lines;
}

bool OpenLines::HasBar() const {
  return redraws_ && std::any_of(rows_.begin(), rows_.end(),
                                 [](const std::string& row) { return IsRedrawn(row); });
}

size_t OpenLines::Bytes() const {
  size_t bytes = 0;
  for (const std::string& row : rows_) bytes += row.size();
  return bytes;
}

}  // namespace muster::client
