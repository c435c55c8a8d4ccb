#include "client/terminal/raw_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace muster::client {

RawTerminal::RawTerminal(int fd) : fd_(fd) {
  if (isatty(fd) == 0 || tcgetattr(fd, &before_) != 0) return;
  termios raw = before_;
  cfmakeraw(&raw);
  is_raw_ = tcsetattr(fd, TCSANOW, &raw) == 0;
}

void RawTerminal::Restore() {
  if (is_raw_) tcsetattr(fd_, TCSANOW, &before_);
}

v1::ExecTerminal TerminalOfPerson() {
  v1::ExecTerminal terminal;
  terminal.set_columns(80);
  terminal.set_rows(24);
  for (const int fd : {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO}) {
    winsize size{};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) continue;
    terminal.set_columns(size.ws_col);
    terminal.set_rows(size.ws_row);
    break;
  }
  const char* const type = getenv("TERM");
  terminal.set_type(type == nullptr ? "dumb" : type);
  return terminal;
}

}  // namespace muster::client
