// Turns a write to a pipe or socket that the peer has closed into an error, instead of a signal
// that kills the process.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace muster::common {

// While it exists, such a write does not raise SIGPIPE in this thread. The program's own handling of the signal
// is unchanged.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
    const timespec none{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

}  // namespace muster::common
