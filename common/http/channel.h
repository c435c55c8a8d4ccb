// Bytes to and from a server on a connected, non-blocking socket, encrypted or not. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/client.h"
#include "common/http/deadline.h"

namespace muster::common {

class Channel {
 public:
  virtual ~Channel() = default;
  virtual absl::Status Write(std::string_view bytes) = 0;
  // At least one byte; empty at the end.
  virtual absl::StatusOr<std::string> Read() = 0;
};

// The socket and the deadline must outlive it.
std::unique_ptr<Channel> PlainChannel(int fd, const Deadline& deadline);
// After the handshake. UNAUTHENTICATED: the certificate is not this server's; nothing was sent.
absl::StatusOr<std::unique_ptr<Channel>> TlsChannel(int fd, const HttpCall& call,
                                                    const Deadline& deadline);

}  // namespace muster::common
