// The text of a progress bar: values in, one line out. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace muster {

struct BarState {
  std::string_view description;
  std::string_view unit;
  std::span<const std::string> postfix;  // "loss 0.431", "lr 0.001"
  int64_t step = 0;
  int64_t total = 0;        // 0: unknown
  int64_t steps_timed = 0;  // done in `seconds`
  double seconds = 0;
};

// A bar of at most `columns` columns (one per code point): description, percent, bar, step, rate,
// time left, postfix. If it does not fit, drops first the postfix from its end, then the bar
// itself, then the description.
std::string bar_text(const BarState& state, int columns, bool utf8);

// The same as a plain line without a bar.
std::string plain_text(const BarState& state);

// "0:07", "3:20", "1:02:03", "2d 03:04:05".
std::string duration_text(double seconds);

}  // namespace muster
