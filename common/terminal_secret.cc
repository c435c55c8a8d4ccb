#include "common/terminal_secret.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

// Switches the echo of a terminal off while it lives.
class EchoOff {
 public:
  explicit EchoOff(int fd) : fd_(fd), is_changed_(tcgetattr(fd, &before_) == 0) {
    if (!is_changed_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    // Drops what was typed before, because it was echoed.
    tcsetattr(fd_, TCSAFLUSH, &silent);
  }
  ~EchoOff() {
    if (is_changed_) tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;

 private:
  const int fd_;
  termios before_{};
  const bool is_changed_;
};

}  // namespace

absl::StatusOr<std::string> AskHidden(const std::string& prompt, size_t bytes_max) {
  const UniqueFd terminal(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!terminal.valid()) return ErrnoStatus("cannot open the terminal");
  RETURN_IF_ERROR(WriteAll(terminal.get(), StrCat(prompt, ": ")));
  std::string line;
  {
    const EchoOff hidden(terminal.get());
    char byte = 0;
    while (line.size() < bytes_max && read(terminal.get(), &byte, 1) == 1 && byte != '\n')
      line += byte;
  }
  RETURN_IF_ERROR(WriteAll(terminal.get(), "\n"));
  return line;
}

absl::StatusOr<std::string> ReadOrAskHidden(const std::string& file, const std::string& prompt,
                                            size_t bytes_max) {
  const bool from_input = file.empty() || file == "-";
  if (from_input && isatty(STDIN_FILENO) == 1) return AskHidden(prompt, bytes_max);
  return ReadFileOrPipe(from_input ? "/dev/stdin" : file, bytes_max);
}

}  // namespace muster::common
