// Launches with secrets for a worker, and messages that were sent after them: they wait in order
// while values are read from a disk. Any thread; only one at a time calls SendAll.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

class WaitingLaunches {
 public:
  enum class Took {
    kNo,     // it has no secrets and nothing waits: it may be sent now
    kYes,    // SendAll takes it
    kFirst,  // … and has to be called, once
  };
  // `message` is moved from unless the answer is kNo.
  Took Take(v1::CoordinatorMessage& message);
  // Sends until nothing waits. `fill` may wait for a disk. Only the message that `send` gets has
  // the values, neither the journal nor the state.
  void SendAll(const std::function<void(v1::LaunchAttempt*)>& fill,
               const std::function<void(v1::CoordinatorMessage)>& send);
  // The bytes of the waiting messages, without the secrets.
  size_t Bytes() const;
  // Call it when the stream is over: waiting messages are not sent.
  void Drop();

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::deque<v1::CoordinatorMessage> waiting_;
  size_t bytes_ = 0;
  bool is_sending_ = false;
};

}  // namespace muster::coordinator
