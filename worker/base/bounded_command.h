// Runs a program for its output, for a bounded time, as the program may hang. Blocks; a job's thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::worker {

struct CommandOutput {
  std::string out;
  std::string err;
  std::string problem = {};  // empty: it exited with 0
  int exit_code = -1;        // -1: it did not exit, but was killed
  bool is_late = false;      // its time was over
};
struct BoundedCommand {
  std::string program = {};  // its path
  std::vector<std::string> argv = {};
  std::vector<std::string> env = {};  // "NAME=value", complete
  std::string workdir = {};           // empty: this process's
  int timeout_ms = 0;
  size_t bytes_max = 0;                     // kept of each stream
  const std::atomic<bool>* stop = nullptr;  // set: it is killed
  int passed_fd = -1;                       // becomes its descriptor 3; -1: it gets none
  // If set, gets the output of both streams as it arrives, instead of keeping it.
  std::function<void(std::string_view)> output = {};
  std::function<void()> tick = {};  // called at least ten times a second
  // If set, kills it when its time is over, instead of a signal to its process group.
  std::function<void(int pid)> kill_it = {};
  // Called before the command is reaped, once nothing of its session is needed any more: kills
  // processes that left its process group.
  std::function<void(int pid)> kill_rest = {};
  // Does not wait for processes that the command left behind and that hold its streams.
  bool ends_with_leader = false;
};
// The command runs in its own session; when it ends or its time is over, the rest of its process group is
// killed.
CommandOutput RunBounded(const BoundedCommand& command);
// argv[0] is the program's path. Its environment has only PATH and HOME.
CommandOutput RunBounded(const std::vector<std::string>& argv, int timeout_ms, size_t bytes_max);

}  // namespace muster::worker
