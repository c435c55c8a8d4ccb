// The coordinator's daemon without its process and its listeners, and WorkerService over real gRPC.
// Who calls is what the call's metadata "as" says: with "worker:node1" a test plays a worker that
// has node1's certificate, without it one on plain TCP.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "coordinator/calls/daemon.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

class WorkersDaemon {
 public:
  static constexpr int kThreads = 2;  // of each pool

  // `directory`: of the data and of the socket. `audit`: its directory; empty: none is kept.
  explicit WorkersDaemon(const std::string& directory, const std::string& audit = "");
  ~WorkersDaemon();

  Daemon& daemon();
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace muster::coordinator
