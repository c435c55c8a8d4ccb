// What a short command prints, without a terminal, within limits. Any thread; blocks.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

struct ChildCommand {
  std::vector<std::string> argv;         // the first is a path
  std::vector<std::string> environment;  // "NAME=value"
  std::chrono::milliseconds limit{10'000};
  size_t bytes_max = 64 * 1024;  // once it has printed these it is killed
};

struct ChildOutput {
  std::string text;    // of stdout; stderr is dropped
  bool whole = false;  // it ended by itself
  int status = 0;      // if whole: as waitpid(2) gives it
};

// DEADLINE_EXCEEDED: it did not end within the limit, and was killed with its process group. Others:
// it could not be started.
absl::StatusOr<ChildOutput> OutputOfChild(const ChildCommand& command);

// "NAME=value" of this process.
std::vector<std::string> OwnEnvironment();

}  // namespace muster::client
