// What a failing call says.
#pragma once

#include <exception>
#include <string>

namespace muster {

// The message of the exception that `action` ends with; "" when it returns.
template <typename F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace muster
