// What a short command prints, without a terminal, within limits. Any thread; blocks.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

struct ChildCommand {
  std::vector<std::string> argv;         // the first is a path
  std::vector<std::string> environment;  // "NAME=value"
  std::chrono::milliseconds limit{10'000};
  size_t bytes_max = 64 * 1024;  // once it has printed these it is killed
  std::string_view input = {};   // of its stdin
};

struct ChildOutput {
  std::string text;    // of stdout
  std::string errors;  // the end of stderr, at most 4 KiB
  bool whole = false;  // all of stdout was read; otherwise the child was stopped at bytes_max
  int status = 0;      // if whole: as waitpid(2) gives it
};

// DEADLINE_EXCEEDED: it did not end within the limit, and was killed with its process group. Others:
// it could not be started.
absl::StatusOr<ChildOutput> OutputOfChild(const ChildCommand& command);

// The path of `name` among the directories of `path_variable`, or empty.
std::string FindInDirectories(const std::string& name, const std::string& path_variable);

// "NAME=value" of this process.
std::vector<std::string> OwnEnvironment();

}  // namespace muster::client
