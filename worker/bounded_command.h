// Runs a program for its output, for a bounded time: what it is asked about may make it hang. Blocks;
// a job's thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::worker {

struct CommandOutput {
  std::string out;
  std::string err;
  std::string problem;  // empty: it exited with 0
};
// argv[0] is the program's path. Its environment is empty but for PATH and HOME; it is killed after
// `timeout_ms`, and no more than `bytes_max` of each stream is kept.
CommandOutput RunBounded(const std::vector<std::string>& argv, int timeout_ms, size_t bytes_max);

}  // namespace muster::worker
