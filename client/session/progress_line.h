// One line on a terminal's stderr that is redrawn while an operation lasts; prints nothing if stderr is
// not a terminal. One thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace muster::client {

class Session;

class ProgressLine {
 public:
  explicit ProgressLine(const Session& session);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;

  // True a few times a second, if there is a terminal: time to make a new text.
  bool IsDue();
  void Show(std::string_view text);
  // Call before printing anything else.
  void Clear();

 private:
  bool is_shown_ = false;
  const bool is_terminal_;
  const size_t width_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace muster::client
