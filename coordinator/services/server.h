// The gRPC server: its listeners, limits and keepalive. Nothing else knows these settings.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/net/listener.h"

namespace muster::coordinator {

class Cluster;
struct Daemon;
struct Leading;

class RpcServer {
 public:
  struct Options {
    std::string socket;                // path, prepared; empty: none
    TcpPort port;                      // already listening; without descriptors: none
    size_t connections = 64;           // open at once, over all listeners
    const Cluster* cluster = nullptr;  // the port speaks TLS with its certificates; null: plaintext
    const Leading* leading = nullptr;  // nothing is sent once its term is over; null: it is alone
  };
  // At least one of socket and port is set.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Daemon& daemon, Options options);
  ~RpcServer();
  // Ends all calls; returns once no handler's stream is left.
  void Stop();
  // The unix socket if there is one, otherwise the TCP address with its real port.
  const std::string& Endpoint() const;

 private:
  struct Parts;
  explicit RpcServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::coordinator
