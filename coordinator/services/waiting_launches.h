// Launches with secrets on their way to a worker, and what was sent after them: they wait in their
// order while values are read from a disk. Any thread; one at a time calls SendAll.
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
  // Until nothing waits. `fill` waits for a disk. The values are in the message that `send` gets
  // alone: neither in the journal nor in the state.
  void SendAll(const std::function<void(v1::LaunchAttempt*)>& fill,
               const std::function<void(v1::CoordinatorMessage)>& send);
  // Of what waits, without the secrets.
  size_t Bytes() const;
  // The stream is over: what waits is not sent.
  void Drop();

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::deque<v1::CoordinatorMessage> waiting_;
  size_t bytes_ = 0;
  bool is_sending_ = false;
};

}  // namespace muster::coordinator
