// Lines that their writer redraws with carriage returns, as progress bars do: which of their states is
// shown. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

// Whether a state of the line was overwritten: it has a carriage return before its end. Carriage returns
// only at the end are how some programs end lines.
bool IsRedrawn(std::string_view line);
// The last state of a redrawn line that `wants` accepts, or otherwise the last one, without the sequences
// that move the cursor or clear the line. Empty if the line was finally erased.
std::string ShownState(std::string_view line,
                       const std::function<bool(std::string_view state)>& wants = {});
// The line that a stream has not ended yet, or the lines, if its writer moves the cursor up, as for bars
// below a bar. Keeps the last state of each.
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
  // From the top, without those that were erased. Nothing is open then.
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
