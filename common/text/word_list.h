// Words separated by bars in one text, as tables write them: "cuda|nvidia". Pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace muster::common {

// Calls `what` with each word until it returns true; returns whether it did.
template <typename Function>
bool AnyWord(std::string_view list, const Function& what) {
  while (!list.empty()) {
    const size_t bar = std::min(list.find('|'), list.size());
    if (what(list.substr(0, bar))) return true;
    list.remove_prefix(std::min(bar + 1, list.size()));
  }
  return false;
}

inline bool HasWord(std::string_view list, std::string_view word) {
  return AnyWord(list, [word](std::string_view each) { return each == word; });
}

}  // namespace muster::common
