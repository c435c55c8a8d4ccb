#include "client/hidden_input.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "client/errors.h"
#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::client {
namespace {

// Switches the echo of a terminal off while it lives.
class EchoOff {
 public:
  explicit EchoOff(int fd) : fd_(fd), is_changed_(tcgetattr(fd, &before_) == 0) {
    if (!is_changed_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    // What was typed before is dropped: it was shown.
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

absl::StatusOr<std::string> AskHidden(const SecretSource& source) {
  const common::UniqueFd terminal(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!terminal.valid()) return common::ErrnoStatus("cannot open the terminal");
  RETURN_IF_ERROR(common::WriteAll(terminal.get(), common::StrCat(source.prompt, ": ")));
  std::string line;
  {
    const EchoOff hidden(terminal.get());
    char byte = 0;
    while (line.size() < source.bytes_max && read(terminal.get(), &byte, 1) == 1 && byte != '\n')
      line += byte;
  }
  RETURN_IF_ERROR(common::WriteAll(terminal.get(), "\n"));
  return line;
}

}  // namespace

absl::StatusOr<std::string> ReadSecret(const SecretSource& source) {
  std::string secret;
  if (source.file.empty() && isatty(STDIN_FILENO) == 1) {
    if (!source.may_ask) {
      return Usage("JC1009", common::StrCat("there is no ", source.prompt, " to read"),
                   "pipe it in, or name its file");
    }
    ASSIGN_OR_RETURN(secret, AskHidden(source));
  } else {
    const bool is_input = source.file.empty() || source.file == "-";
    ASSIGN_OR_RETURN(
        secret, common::ReadFileOrPipe(is_input ? "/dev/stdin" : source.file, source.bytes_max));
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  return secret;
}

}  // namespace muster::client
