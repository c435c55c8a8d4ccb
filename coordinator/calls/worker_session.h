// One worker's control stream, without gRPC: registration first, then one message at a time. The
// service passes messages in; commands go out through the CommandSink that it created. Any thread,
// one message at a time.
//
// A checkpoint part counts only if its bytes are in the store, which needs a look at the disk. The worker's
// later messages wait for that look, because an attempt whose end is reported takes no more parts.
// Heartbeats do not wait: a slow disk must not cost a lease.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/contexts/contexts.h"
#include "coordinator/gates/reach.h"
#include "coordinator/loop/control_loop.h"

namespace muster::coordinator {

class WorkerSession : public std::enable_shared_from_this<WorkerSession> {
 public:
  WorkerSession(Jobs& jobs, JobStores& stores, Traffic& traffic, Instance& instance,
                Process& process, NodeIdentity caller, std::weak_ptr<CommandSink> sink)
      : jobs_(jobs),
        stores_(stores),
        traffic_(traffic),
        instance_(instance),
        process_(process),
        caller_(std::move(caller)),
        sink_(std::move(sink)) {}

  // `next`: the next message may be read.
  void OnMessage(v1::WorkerMessage message, std::function<void()> next);
  // An order for this worker is larger than what a worker takes, and was not sent: the part that it would have
  // started is over.
  void OnTooLarge(const v1::CoordinatorMessage& order);
  // The same for another reason.
  void OnUnsendable(const v1::CoordinatorMessage& order, const absl::Status& why);
  // The stream is over.
  void OnGone();
  bool IsRegistered() const { return registered_; }

 private:
  // Parts whose bytes are being looked up, and the messages after them. Beyond this the stream is not
  // read.
  // limit: nodes: a worker's reports behind a checkpoint part that is being checked; its stream is not read
  static constexpr size_t kWaitingBytesMax = 4 << 20;
  struct Waiting {
    v1::WorkerMessage message;
    std::shared_ptr<CommandSink> sink = nullptr;  // of a registration
    std::function<void()> next = nullptr;         // called once it was taken, if set
    size_t bytes = 0;
  };

  void OnPiece(v1::MessagePiece piece, std::function<void()> next);
  absl::Status CheckRegistration(const v1::Register& registration) const;
  void OnRegister(v1::WorkerMessage message, std::function<void()> next);
  void Close(const absl::Status& status);
  // Passes it on, after everything that waits.
  void SayInOrder(Waiting said);
  // Takes what waits, in order. One call at a time.
  void TakeWaiting();
  void SayGone();
  void Say(Waiting said, std::vector<std::string> part_problems);

  Jobs& jobs_;
  JobStores& stores_;
  Traffic& traffic_;
  Instance& instance_;
  Process& process_;
  const NodeIdentity caller_;
  const std::weak_ptr<CommandSink> sink_;
  std::atomic<bool> registered_ = false;
  uint64_t session_ = 0;
  std::string node_;
  std::string pieces_;  // of a message sent in several pieces

  std::mutex mutex_;  // guards what follows
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  bool is_taking_ = false;
  bool is_gone_ = false;
};

}  // namespace muster::coordinator
