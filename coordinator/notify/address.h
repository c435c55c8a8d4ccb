// Which addresses a job may make the coordinator call: not its own host, not the networks behind
// it, unless the operator allows them (--notify-allow). Pure.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

// An IPv4 network is kept as the IPv6 one that it maps to.
struct Network {
  std::array<uint8_t, 16> bytes{};
  int bits = 0;
};
// "10.0.0.0/8", "127.0.0.1", "fd00::/8". INVALID_ARGUMENT for anything else.
absl::StatusOr<Network> ParseNetwork(std::string_view text);

// Public, or in one of `allowed`. Loopback, link-local, private, shared, multicast and reserved
// addresses are not public, in whichever form IPv6 can carry them.
bool MayCall(const sockaddr* address, const std::vector<Network>& allowed);
// The same with the reason, PERMISSION_DENIED, for a host that was resolved to this address.
absl::Status CheckMayCall(const std::string& host, const sockaddr* address,
                          const std::vector<Network>& allowed);
}  // namespace muster::coordinator
