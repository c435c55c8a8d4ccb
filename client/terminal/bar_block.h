// The lines at the end of a terminal's output that change, one per progress bar: the escape sequences that
// draw and remove them. The cursor stays below them, where a program that is killed leaves the prompt.
// Pure.
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
  static constexpr size_t kBarsMax = 8;  // shown at once; of more, only their number is

  explicit BarBlock(const Terminal& terminal) : terminal_(terminal) {}

  // Removes from the screen what Draw put there; empty if nothing is there.
  std::string Erase();
  // Replaces what is there.
  std::string Draw(const std::vector<Bar>& bars);

 private:
  const Terminal terminal_;
  size_t rows_ = 0;  // on the screen
};

}  // namespace muster::client
