// Forwards standard input, window size changes and signals to a remote command. One thread, which the
// destructor stops.
#pragma once

#include <atomic>
#include <thread>

#include "client/connection/exec_call.h"
#include "common/files/files.h"

namespace muster::client {

// Call before any thread starts: SIGWINCH is read from a descriptor, not handled.
void HoldWindowSignals();

class ExecPump {
 public:
  struct What {
    bool input = false;
    bool window = false;
  };
  ExecPump(ExecCall& call, What what);
  ~ExecPump();
  ExecPump(const ExecPump&) = delete;
  // Sends a signal to the command. Any thread; returns at once.
  void Signal(int number);

 private:
  void Run();
  // False: the input has ended.
  bool SendInput();
  bool SendWindow();

  ExecCall& call_;
  const What what_;
  common::UniqueFd window_;  // a signalfd
  common::UniqueFd wake_;
  std::atomic<int> signal_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace muster::client
