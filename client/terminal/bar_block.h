// Makes the escape sequences that draw and remove the changing lines at the end of a terminal's output, one per
// progress bar. The cursor stays below them, so that the prompt appears there if the program is killed. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/terminal/terminal.h"

namespace muster::client {

struct Bar {
  std::string prefix;  // may have colors
  size_t prefix_width = 0;
  std::string text;
};

class BarBlock {
 public:
  static constexpr size_t kBarsMax = 8;  // shown at once; for the rest only their number is shown

  explicit BarBlock(const Terminal& terminal) : terminal_(terminal) {}

  // Removes from the screen what Draw has drawn; empty if there is nothing.
  std::string Erase();
  // Replaces the bars on the screen.
  std::string Draw(const std::vector<Bar>& bars);

 private:
  const Terminal terminal_;
  size_t rows_ = 0;  // on the screen
};

}  // namespace muster::client
