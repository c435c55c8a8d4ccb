// Exported points as CSV and as JSON lines: one line each, values in full precision. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::client {

struct ExportedPoint {
  std::string_view job;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  int64_t step = 0;
  int64_t time_ms = 0;
  std::string_view name;
  double value = 0;
};

inline constexpr std::string_view kCsvPointHead = "job,attempt,rank,step,time_ms,name,value\n";
void AppendCsvPoint(const ExportedPoint& point, std::string* out);
void AppendJsonPoint(const ExportedPoint& point, std::string* out);

}  // namespace muster::client
