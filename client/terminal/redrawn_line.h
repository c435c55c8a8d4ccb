// Chooses which state to show of lines that their writer redraws with carriage returns, such as progress bars.
// Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

// Whether a state of the line was overwritten: it has a carriage return before its end. Some programs end lines
// with carriage returns, so those at the end do not count.
bool IsRedrawn(std::string_view line);
// The last state of a redrawn line that `wants` accepts, or otherwise the last one, without the sequences
// that move the cursor or clear the line. Empty if the line was finally erased.
std::string ShownState(std::string_view line,
                       const std::function<bool(std::string_view state)>& wants = {});
// The unfinished line of a stream, or several, if its writer moves the cursor up, as for a bar below another.
// Keeps the last state of each.
class OpenLines {
 public:
  static constexpr size_t kRowsMax = 8;

  // `redraws`: false keeps every byte, as one line.
  explicit OpenLines(bool redraws = true) : redraws_(redraws) {}

  // Whether `text`, as a complete line, needs no redrawing: no line is open, and it opens none.
  bool Passes(std::string_view text) const;
  // `text` has no newline.
  void Append(std::string_view text);
  // Whether a newline would end all lines. If not, it only moves the cursor down: call MoveDown.
  bool AtBottom() const { return row_ + 1 >= rows_.size(); }
  void MoveDown();
  // Returns the lines from the top, without erased ones. No line is open afterwards.
  std::vector<std::string> Take();

  // One of the lines has been redrawn.
  bool HasBar() const;
  const std::vector<std::string>& rows() const { return rows_; }
  size_t Bytes() const;

 private:
  void MoveUp();

  bool redraws_;
  std::vector<std::string> rows_;
  size_t row_ = 0;  // of the cursor
};

}  // namespace muster::client
