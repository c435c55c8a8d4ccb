#include "client/session/progress_line.h"

#include <cstdio>

#include "client/session/session.h"
#include "client/terminal/terminal.h"
#include "common/text/strings.h"

namespace muster::client {

using std::chrono::steady_clock;

ProgressLine::ProgressLine(const Session& session)
    : is_terminal_(session.terminal().err_is_tty && !session.quiet()),
      width_(session.terminal().width) {}

bool ProgressLine::IsDue() {
  if (!is_terminal_) return false;
  const auto now = steady_clock::now();
  if (now < next_) return false;
  next_ = now + std::chrono::milliseconds(150);
  return true;
}

void ProgressLine::Show(std::string_view text) {
  const std::string line =
      common::StrCat("\r", Shorten(Filtered(text), width_ > 1 ? width_ - 1 : 1), "\033[K");
  fwrite(line.data(), 1, line.size(), stderr);
  is_shown_ = true;
}

void ProgressLine::Clear() {
  if (is_shown_) fputs("\r\033[K", stderr);
  is_shown_ = false;
}

}  // namespace muster::client
