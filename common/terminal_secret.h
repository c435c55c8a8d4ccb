// A secret that a person types at the terminal, without being shown. Main thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace muster::common {

// Asks with "PROMPT: " on /dev/tty, whatever standard input and output are. Without the line's end.
absl::StatusOr<std::string> AskHidden(const std::string& prompt, size_t bytes_max);
// From a file; empty or "-": from standard input, or asked for if that is a terminal.
absl::StatusOr<std::string> ReadOrAskHidden(const std::string& file, const std::string& prompt,
                                            size_t bytes_max);

}  // namespace muster::common
