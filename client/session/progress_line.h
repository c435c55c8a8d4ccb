// One line on a terminal's stderr that is replaced while something lasts; nothing anywhere else. One
// thread.
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

  // True a few times a second, if there is a terminal: the text is worth making.
  bool IsDue();
  void Show(std::string_view text);
  // Before anything else is printed.
  void Clear();

 private:
  bool is_shown_ = false;
  const bool is_terminal_;
  const size_t width_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace muster::client
