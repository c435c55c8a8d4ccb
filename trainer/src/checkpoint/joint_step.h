// What saving and loading share: names in a shard, and steps whose failure is an answer.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::string_view kOwnPrefix = "rank/";  // tensors that belong to one rank alone

// Runs a step that may fail and returns its error text; empty when it succeeded.
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
