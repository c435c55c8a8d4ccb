// A text of a foreign file for a message, which it must not make long.
#pragma once

#include <string>
#include <string_view>

namespace muster {

inline std::string shown_text(std::string_view text) {
  constexpr size_t kBytesMax = 200;
  if (text.size() <= kBytesMax) return std::string(text);
  return std::string(text.substr(0, kBytesMax)) + "…";
}

}  // namespace muster
