// The gRPC server: its doors, limits and keepalive. Nothing else knows these settings.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/listener.h"

namespace muster::coordinator {

struct Daemon;

class RpcServer {
 public:
  struct Options {
    std::string socket;       // path, prepared; empty: none
    TcpPort port;             // listens already; without descriptors: none
    size_t connections = 64;  // at once, over all doors
  };
  // At least one of socket and port is there.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Daemon& daemon, Options options);
  ~RpcServer();
  // Ends all calls; returns when no handler's stream is left.
  void Stop();
  // The unix socket when there is one, else the TCP address with its real port.
  const std::string& Endpoint() const;

 private:
  struct Parts;
  explicit RpcServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::coordinator
