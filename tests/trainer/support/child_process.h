// Runs programs as children of a test and waits for them with a deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace muster {

struct ChildResult {
  int exit_code = -1;  // 128 + N if signal N killed it
  std::string output;  // stdout and stderr together
};

class ChildProcess {
 public:
  // Starts argv with this process's environment plus `environment`.
  ChildProcess(const std::vector<std::string>& argv,
               const std::map<std::string, std::string>& environment);
  // Kills the child if it is still running.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;

  pid_t pid() const { return pid_; }
  // Kills the child if the deadline passes first, and notes that in the output.
  ChildResult wait(std::chrono::steady_clock::time_point deadline);

 private:
  pid_t pid_ = -1;
  std::string output_path_;
};

}  // namespace muster
