// Makes the bytes that turn one frame on a terminal into the next. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

std::vector<std::string> FrameLines(std::string_view text);

// Turns a screen that shows `shown` into one that shows `lines`, by rewriting the lines that
// differ; if `shown` is empty, all lines. Empty if there is no difference. Written at once, it does
// not flicker: lines are overwritten, not cleared, and a terminal that supports synchronized output
// shows everything at once. Lines have no escape sequences except colors, and fit the screen.
std::string FrameUpdate(const std::vector<std::string>& shown,
                        const std::vector<std::string>& lines);

}  // namespace muster::client
