// The worker that a private coordinator keeps: started beside it, started again while it is needed,
// ended with it. One thread of its own; spawns with posix_spawn, never forks.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"

namespace muster::coordinator {

class PrivateWorker {
 public:
  PrivateWorker(std::string state_dir, std::string socket);
  ~PrivateWorker() { Stop(); }

  // Spawns it unless one holds the state directory already (it outlived a killed coordinator).
  void Start();
  // SIGTERM, waits for its end, SIGKILL after a few seconds.
  void Stop();

 private:
  void Run();
  absl::Status Spawn();
  // Waits until the process is gone or somebody calls Stop.
  void WaitForEnd();
  bool IsAlive();

  const std::string state_dir_;
  const std::string socket_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  pid_t pid_ = 0;
  bool is_child_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::coordinator
