// What a person gives to a command elsewhere: standard input, changes of the window, signals. One
// thread, which the destructor ends.
#pragma once

#include <atomic>
#include <thread>

#include "client/connection/exec_call.h"
#include "common/files/files.h"

namespace muster::client {

// Before any thread starts: SIGWINCH is read, not handled.
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
  // For the command. Any thread; returns at once.
  void Signal(int number);

 private:
  void Run();
  // False: there is no more.
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
