// The error message of a failing call.
#pragma once

#include <exception>
#include <string>

namespace muster {

// The message of the exception that `action` throws; "" if it returns.
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
