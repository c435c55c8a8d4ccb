// Secrets from a person: typed without being shown, or read from a file or a pipe; never from the
// command line, which others can read. Main thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace muster::client {

struct SecretSource {
  std::string file;    // "-": standard input; empty: asked for on a terminal, otherwise stdin
  std::string prompt;  // "Token"
  bool may_ask = true;
  size_t bytes_max = 0;
};
// Without line ends at its end. JC1009 if there is neither a file, nor a pipe, nor a terminal.
absl::StatusOr<std::string> ReadSecret(const SecretSource& source);

}  // namespace muster::client
