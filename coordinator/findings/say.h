// Words for findings. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/findings/evidence.h"
#include "muster/v1/finding.pb.h"

namespace muster::coordinator {

struct Saying {
  std::string sentence;
  std::string cause;
  std::string fix;
};
// The code is filled in from the table of rules.
v1::Finding MakeFinding(v1::FindingSeverity severity, Saying saying);
void AddNumber(v1::Finding& finding, std::string_view name, double value,
               std::string_view unit = "");
void SetWaste(v1::Finding& finding, double device_seconds);

// "4,095".
std::string WithCommas(uint64_t number);
// "37 %".
std::string Percent(double share);
// "12 ms", "1.3 s", "4m 10s".
std::string ShortTime(double seconds);
// A command line, quoted for a shell; "COMMAND" if it is too long.
std::string CommandLine(const v1::JobSpec& spec);

}  // namespace muster::coordinator
