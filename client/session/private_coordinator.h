// The user's private coordinator: finds it, starts it if needed, waits for its exit. Main thread
// only.
//
// Several jobctl may start at once: one takes the lock file `starting`, starts the daemon and waits
// until its socket answers; the others wait for the lock and connect. The daemon outlives this
// process and stops when idle.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::client {

class PrivateCoordinator {
 public:
  // Absolute paths: sockets and logs in the first, the records in the second.
  PrivateCoordinator(std::string runtime_dir, std::string data_dir);

  std::string endpoint() const { return "unix:" + socket_path(); }
  std::string socket_path() const { return runtime_dir_ + "/coordinator.sock"; }
  std::string log_path() const { return data_dir_ + "/coordinator/coordinator.log"; }
  const std::string& data_dir() const { return data_dir_; }

  // A connect to its socket succeeds.
  bool Running() const;
  // True if it has ever recorded anything.
  bool HasData() const;
  // Ensures that it is running, starting it if needed, and that it belongs to this user. Call
  // before every connection. Errors: JC1303, JC1304, JC1305, JC1605.
  absl::Status Ensure();

  // Remembers the process with `pid`, to wait for its end later.
  void Watch(int pid);
  // True once the watched process is gone, within `milliseconds`.
  bool WaitForEnd(int milliseconds);

 private:
  absl::Status MakeDirectories() const;
  // `report`: where the coordinator writes why it could not start.
  absl::StatusOr<int> Spawn(common::UniqueFd* report) const;
  // Returns once its socket answers, or that of another process in its place.
  absl::Status Start() const;

  std::string runtime_dir_;
  std::string data_dir_;
  common::UniqueFd process_;  // a pidfd
};

// Path of a program next to this one, or in ../libexec/muster. Errors: JC1305.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace muster::client
