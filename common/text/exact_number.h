// Numbers that read back as the same double, in as few digits as that takes. Pure.
#pragma once

#include <string>

namespace muster::common {

// "0.1", "NaN", "Infinity", "-Infinity".
std::string ExactNumber(double value);
// The same; what JSON has no number for is a string, as in docs/protocol.md.
std::string ExactJson(double value);

}  // namespace muster::common
