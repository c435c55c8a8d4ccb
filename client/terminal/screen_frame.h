// What a terminal has to be sent so that it shows a new frame. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

std::vector<std::string> FrameLines(std::string_view text);

// Turns a screen that shows `shown` into one that shows `lines`, by rewriting the lines that
// differ; with nothing shown, all. Nothing if there is no difference. One write of it does not
// flicker: a line is overwritten, not cleared, and a terminal that knows synchronized output shows
// all of it at once. Lines have no escape sequences but colors, and fit the screen.
std::string FrameUpdate(const std::vector<std::string>& shown,
                        const std::vector<std::string>& lines);

}  // namespace muster::client
