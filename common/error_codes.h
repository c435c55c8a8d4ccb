// The stable error codes that people see ("JC1201"), each with its meaning and fix. One row per
// code, sorted; `jobctl explain CODE` prints them without a coordinator. Any thread.
//
// 10xx command line and configuration · 11xx job spec and job file · 12xx jobs · 13xx coordinator
// and connection · 14xx nodes and placement · 15xx checkpoints, logs, metrics · 16xx storage.
#pragma once

#include <span>
#include <string_view>

namespace muster::common {

struct ErrorCode {
  std::string_view code;
  std::string_view title;
  std::string_view explanation;
  std::string_view fix;
};

std::span<const ErrorCode> ErrorCodes();
// The row for "JC1201" (any case, letters optional), or null.
const ErrorCode* FindErrorCode(std::string_view code);

}  // namespace muster::common
