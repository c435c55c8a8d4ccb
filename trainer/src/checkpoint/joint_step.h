// Shared by saving and loading: names in a shard, and steps that return their failure.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::string_view kOwnPrefix = "rank/";  // tensors that belong to one rank only

// Runs a step that may throw and returns its error message; empty on success.
template <typename Step>
std::string error_of(Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.empty() ? "unknown error" : text;
  }
  return "";
}

}  // namespace muster
