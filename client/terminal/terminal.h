// What we know about the terminal: whether it is one, its width, whether to use color; and how wide
// text is on it. Read once at startup.
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
  size_t width = 80;  // columns of stdout, 80 if unknown
  size_t height = 0;  // its lines, 0 if unknown
};

// `color` is auto, always or never; auto obeys NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
// COLUMNS overrides the width, LINES the height.
Terminal DetectTerminal(std::string_view color);

// Columns that valid UTF-8 occupies: 0 for combining marks, 2 for East Asian wide characters and
// emoji, otherwise 1.
size_t DisplayWidth(std::string_view text);
// At most `width` columns, "…" at the end if something was cut.
std::string Shorten(std::string_view text, size_t width);
// At most `width` columns, "…" in the middle if something was cut: names often differ at their end.
std::string ShortenMiddle(std::string_view text, size_t width);
// Makes any output printable except lines, tabs and colors. The last check before the terminal,
// whatever was missed earlier.
std::string Filtered(std::string_view text);
// A line of a rank for a terminal: control characters escaped. Color sequences (ESC [ … m) are kept
// if `color` is set, and are closed at the end.
std::string TerminalSafe(std::string_view line, bool color);

}  // namespace muster::client
