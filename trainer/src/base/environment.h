// Environment variables as the SDK reads them. No LibTorch.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

namespace muster {

// "" if the variable is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "1", "true", "yes" and "on", in upper or lower case, as Accelerate parses its variables.
inline bool is_true(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), ::tolower);
  return text == "1" || text == "true" || text == "yes" || text == "on";
}

}  // namespace muster
