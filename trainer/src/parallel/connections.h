// Finds and shuts down the TCP connections of a process group: Gloo cannot abort a collective, but
// it notices at once when a connection closes. The connections are identified by the addresses that
// the ranks exchanged at rendezvous, so no other connection is ever affected. Without LibTorch.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster {

// Identifies a socket, not just a descriptor, because descriptor numbers are reused after close.
struct SocketIdentity {
  int fd = -1;
  ino_t inode = 0;
  bool operator==(const SocketIdentity&) const = default;
};

// Every connected TCP socket of this process whose local or remote address occurs in one of the
// messages (a sockaddr_in or sockaddr_in6, as Gloo publishes its listening address). Empty if /proc
// is not mounted.
std::vector<SocketIdentity> connections_at(const std::vector<std::string>& messages);

// Whether any of them was closed by the peer or by this process. Any thread; does not block.
bool any_is_broken(const std::vector<SocketIdentity>& sockets) noexcept;

// Shuts down the connections in both directions; the descriptors stay with their owner. Skips
// sockets closed in the meantime. Any thread.
void break_connections(const std::vector<SocketIdentity>& sockets) noexcept;

}  // namespace muster
