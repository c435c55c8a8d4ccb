// muster-worker init: the first process of a container. Starts the worker and restarts it when it
// dies, without disturbing ranks; reaps orphans; forwards signals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::worker {

// How long to wait before a child that has died is restarted.
class RestartPause {
 public:
  static constexpr int64_t kFirstMs = 200;
  static constexpr int64_t kLongestMs = 5'000;
  // For a child that ran this long, the pause starts over at kFirstMs.
  static constexpr int64_t kHealthyMs = 10'000;

  int64_t After(int64_t ran_ms);

 private:
  int64_t next_ms_ = kFirstMs;
};

// The code of a container whose child ended with this status of waitpid: its exit code, or 128 plus
// the signal.
int ContainerCode(int wait_status);

// Empty unless the command line is `muster-worker init …`; otherwise the exit code.
std::optional<int> RunInitCommand(int argc, char** argv);

}  // namespace muster::worker
