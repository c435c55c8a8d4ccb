// One worker's control stream, without gRPC: registration first, then one message at a time. The
// service passes messages in; commands go out through the CommandSink that it created. Any thread,
// one message at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/control_loop.h"
#include "coordinator/rpc/daemon.h"

namespace muster::coordinator {

class WorkerSession {
 public:
  WorkerSession(Daemon& daemon, std::weak_ptr<CommandSink> sink)
      : daemon_(daemon), sink_(std::move(sink)) {}

  // `next`: the next message may be read.
  void OnMessage(v1::WorkerMessage message, std::function<void()> next);
  // The stream is over.
  void OnGone();
  bool IsRegistered() const { return registered_; }

 private:
  void OnPiece(v1::MessagePiece piece, std::function<void()> next);
  absl::Status CheckRegistration(const v1::Register& registration) const;
  void Close(const absl::Status& status);

  Daemon& daemon_;
  const std::weak_ptr<CommandSink> sink_;
  std::atomic<bool> registered_ = false;
  uint64_t session_ = 0;
  std::string node_;
  std::string pieces_;  // of a message sent in several pieces
};

}  // namespace muster::coordinator
