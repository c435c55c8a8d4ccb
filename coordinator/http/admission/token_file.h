// A secret of the data directory: 256 random bits as 64 lower-case hex digits in a file with mode
// 0600, made at the first start and kept. Reads and writes a file: not on a control loop.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster::coordinator::http {

// 64 lower-case hex digits from the kernel's generator.
std::string RandomHex256();
// PERMISSION_DENIED if others may read the file or it is another user's, DATA_LOSS if it holds
// anything but a token.
absl::StatusOr<std::string> LoadOrMakeToken(const std::string& path);

}  // namespace muster::coordinator::http
