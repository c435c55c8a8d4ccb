// The gRPC server: its listening addresses, limits and keepalive. Nothing else knows these
// settings.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace muster::coordinator {

struct Daemon;

class RpcServer {
 public:
  // At least one of the two addresses is not empty.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Daemon& daemon, const std::string& socket,
                                                          const std::string& listen);
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
