// Renders a progress bar; see bar_text.h.
#include "tracking/bar_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace muster {
namespace {

constexpr int kBarColumnsMax = 40;
constexpr int kBarColumnsMin = 5;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

int columns_of(std::string_view text) {
  return static_cast<int>(
      text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), is_continuation)));
}

// The first `columns` code points.
std::string_view cut(std::string_view text, int columns) {
  size_t end = 0;
  for (; end < text.size() && columns >= 0; ++end) {
    if (!is_continuation(text[end]) && columns-- == 0) break;
  }
  return text.substr(0, end);
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  // %.3g would write 1234 as 1.23e+03.
  if (value >= 999.5 && value < 1e9) std::snprintf(text, sizeof(text), "%.0f", value);
  return text;
}

void add_word(std::string& text, const std::string& word) {
  if (!text.empty() && !word.empty()) text += ' ';
  text += word;
}

std::string rate_text(const BarState& state) {
  if (state.steps_timed <= 0 || state.seconds <= 0) return "";
  const double rate = static_cast<double>(state.steps_timed) / state.seconds;
  const std::string unit(state.unit);
  // A slow loop is easier to read as time per step.
  if (rate < 0.1) return number_text(1 / rate) + "s/" + (unit.empty() ? "step" : unit);
  return number_text(rate) + (unit.empty() ? "" : " " + unit) + "/s";
}

std::string time_text(const BarState& state) {
  if (state.total > 0 && state.step >= state.total) return "in " + duration_text(state.seconds);
  if (state.total == 0 || state.steps_timed <= 0) return "";
  const double left = state.seconds / static_cast<double>(state.steps_timed) *
                      static_cast<double>(state.total - state.step);
  return "eta " + duration_text(left);
}

// Rounded down: 100 % means done.
int percent_of(const BarState& state) {
  const double share = static_cast<double>(state.step) / static_cast<double>(state.total);
  return static_cast<int>(std::clamp(std::floor(100 * share), 0.0, 100.0));
}

std::string count_text(const BarState& state) {
  const std::string step = std::to_string(state.step);
  return state.total > 0 ? step + "/" + std::to_string(state.total) : step;
}

// Eighths of a column in UTF-8 (U+2588 to U+258F), whole ones in ASCII.
std::string filling(double share, int columns, bool utf8) {
  const double exact = std::clamp(share, 0.0, 1.0) * columns;
  std::string text;
  int used = static_cast<int>(exact);
  if (!utf8) {
    text = std::string(static_cast<size_t>(used), '#');
  } else {
    for (int i = 0; i < used; ++i) text += "\u2588";
    const int eighths = static_cast<int>((exact - used) * 8);
    if (eighths > 0) {
      text += "\xe2\x96";
      text += static_cast<char>(0x90 - eighths);
      ++used;
    }
  }
  return text + std::string(static_cast<size_t>(columns - used), utf8 ? ' ' : '.');
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::clamp(std::round(seconds), 0.0, 1e12));
  const long long hours = whole / 3600, days = hours / 24;
  const int minutes = static_cast<int>(whole / 60 % 60), rest = static_cast<int>(whole % 60);
  char text[48];
  if (days > 0) {
    std::snprintf(text, sizeof(text), "%lldd %02lld:%02d:%02d", days, hours % 24, minutes, rest);
  } else if (hours > 0) {
    std::snprintf(text, sizeof(text), "%lld:%02d:%02d", hours, minutes, rest);
  } else {
    std::snprintf(text, sizeof(text), "%d:%02d", minutes, rest);
  }
  return text;
}

std::string bar_text(const BarState& state, int columns, bool utf8) {
  std::string before(state.description);
  std::string after = count_text(state);
  add_word(after, rate_text(state));
  add_word(after, time_text(state));
  if (state.total > 0) {
    char percent[8];
    std::snprintf(percent, sizeof(percent), "%3d%%", percent_of(state));
    add_word(before, percent);
  }
  // before, " |", bar, "| ", after, " ", postfix
  const int room = columns - columns_of(before) - columns_of(after) - 4;
  if (state.total > 0 && room >= kBarColumnsMin) {
    int postfix = 0;
    for (const std::string& entry : state.postfix) {
      const int width = 1 + columns_of(entry);
      if (room - postfix - width < kBarColumnsMin) break;
      postfix += width;
    }
    const int bar = std::min(room - postfix, kBarColumnsMax);
    const double share = static_cast<double>(state.step) / static_cast<double>(state.total);
    add_word(before, "|" + filling(share, bar, utf8) + "|");
  }
  std::string line = before;
  add_word(line, after);
  if (columns_of(line) > columns) line = after;
  for (const std::string& entry : state.postfix) {
    if (columns_of(line) + 1 + columns_of(entry) > columns) break;
    add_word(line, entry);
  }
  return std::string(cut(line, columns));
}

std::string plain_text(const BarState& state) {
  std::string line(state.description);
  add_word(line, count_text(state));
  if (state.total > 0) add_word(line, std::to_string(percent_of(state)) + "%");
  add_word(line, rate_text(state));
  add_word(line, time_text(state));
  for (const std::string& entry : state.postfix) add_word(line, entry);
  return line;
}

}  // namespace muster
