// The user's terminal while a remote command uses it: every key is sent there, including Ctrl-C.
#pragma once

#include <termios.h>

#include "muster/v1/exec.pb.h"

namespace muster::client {

class RawTerminal {
 public:
  // Nothing happens if `fd` is not a terminal.
  explicit RawTerminal(int fd);
  ~RawTerminal() { Restore(); }
  RawTerminal(const RawTerminal&) = delete;
  // Restores the terminal's settings. Any thread, repeatedly.
  void Restore();

 private:
  const int fd_;
  bool is_raw_ = false;
  termios before_{};
};

// The size of stdout, stdin or stderr, whichever is a terminal; 80 by 24 without one. `type` is TERM.
v1::ExecTerminal TerminalOfPerson();

}  // namespace muster::client
