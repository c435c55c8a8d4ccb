// The person's terminal while a command elsewhere uses it: every key goes there, Ctrl-C included.
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
  // As it was. Any thread, repeatedly.
  void Restore();

 private:
  const int fd_;
  bool is_raw_ = false;
  termios before_{};
};

// Of stdout, stdin or stderr, whichever is a terminal; 80 by 24 without one. `type` is TERM.
v1::ExecTerminal TerminalOfPerson();

}  // namespace muster::client
