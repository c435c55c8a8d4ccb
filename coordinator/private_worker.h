// The worker of a private coordinator: started with it, restarted while it is needed, stopped with
// it. Has its own thread; spawns with posix_spawn, never forks.
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

  // Spawns it unless a worker already holds the state directory (it outlived a killed coordinator).
  void Start();
  // SIGTERM, waits for its exit, SIGKILL after a few seconds.
  void Stop();

 private:
  void Run();
  absl::Status Spawn();
  // Waits until the process is gone or Stop is called.
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
