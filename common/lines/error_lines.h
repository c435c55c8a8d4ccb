// Whether a line of a rank's output reads as an error. Pure.
#pragma once

#include <string_view>

namespace muster::common {

// True for an exception's last line ("ValueError: …", "what():  …"), a message of level error or
// fatal, and what shells, the C library, sanitizers and accelerator libraries print on failure.
// False for a warning, a progress bar, a count ("errors: 0"), a measurement ("error: 0.25"), and
// whatever else a program prints in normal operation ("Using config foo").
bool ReadsAsError(std::string_view line);

}  // namespace muster::common
