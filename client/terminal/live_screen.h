// A full-screen view that is redrawn in place: the alternate screen, keys without Enter. However
// the process ends or stops (Ctrl-C, Ctrl-Z, a signal, a crash), the terminal is restored; `fg`
// brings the view back. One at a time, on the main thread. Needs WatchSignals, called before any
// connection.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::client {

class LiveScreen {
 public:
  // Errors: JC1004 if stdin or stdout is not a terminal.
  absl::Status Open();
  ~LiveScreen();

  // Replaces the screen by writing only the lines that changed. The caller must leave out lines
  // that do not fit.
  void Draw(const std::string& text);

  enum class Key { kNone, kCharacter, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kSignal };
  struct Event {
    Key key = Key::kNone;  // kNone: the timeout passed, or the window was resized
    char character = 0;
    int signal = 0;  // that asks the process to exit
  };
  // Waits at most `timeout_ms`.
  Event Next(int timeout_ms);

 private:
  Event KeyPress();

  bool is_open_ = false;
  std::vector<std::string> shown_;  // the lines on the screen; empty: unknown
  std::string typed_;               // keys that were read but not returned yet
};

}  // namespace muster::client
