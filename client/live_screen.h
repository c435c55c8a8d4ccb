// A full-screen view that is redrawn in place: the alternate screen, keys without Enter. Whatever
// ends the process or stops it (Ctrl-C, Ctrl-Z, a signal, a crash), the terminal is as it was
// before; after `fg` the view is back. One at a time; the main thread. Opened before connections, as
// WatchSignals.
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

  // Replaces what is shown, by writing only the lines that changed. Lines beyond the screen must
  // have been left out.
  void Draw(const std::string& text);

  enum class Key { kNone, kCharacter, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kSignal };
  struct Event {
    Key key = Key::kNone;  // kNone: time passed, or the window's size changed
    char character = 0;
    int signal = 0;  // that asks the process to end
  };
  // Waits at most so long.
  Event Next(int timeout_ms);

 private:
  Event KeyPress();

  bool is_open_ = false;
  std::vector<std::string> shown_;  // the lines on the screen; empty: unknown
  std::string typed_;               // keys that were read and not yet returned
};

}  // namespace muster::client
