// What we know of the terminal: is it one, how wide, may we colour; and how wide text is on it.
// Read once at start.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::client {

struct Terminal {
  bool out_is_tty = false;
  bool err_is_tty = false;
  bool color_out = false;
  bool color_err = false;
  size_t width = 80;  // columns of stdout, 80 when unknown
  size_t height = 0;  // its lines, 0 when unknown
};

// `color` is auto, always or never; auto obeys NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
// COLUMNS gives the width, LINES the height.
Terminal DetectTerminal(std::string_view color);

// Columns that valid UTF-8 takes: 0 for combining marks, 2 for East Asian wide characters and
// emoji, else 1.
size_t DisplayWidth(std::string_view text);
// At most `width` columns, "…" at the end when something was cut.
std::string Shorten(std::string_view text, size_t width);
// Any output of ours: what is foreign in it is made printable; lines, tabs, colours and "clear the
// screen" stay. The last door to the terminal, whatever was forgotten before it.
std::string Filtered(std::string_view text);
// A line of a rank for a terminal: control characters escaped. Colour sequences (ESC [ … m) pass
// when `color` is set and are closed at the end.
std::string TerminalSafe(std::string_view line, bool color);

}  // namespace muster::client
