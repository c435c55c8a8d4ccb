// Prints numbers with the fewest digits that read back as the same double. Pure.
#pragma once

#include <string>

namespace muster::common {

// "0.1", "NaN", "Infinity", "-Infinity".
std::string ExactNumber(double value);
// The same; values that JSON cannot represent as a number are strings, as in docs/protocol.md.
std::string ExactJson(double value);

}  // namespace muster::common
