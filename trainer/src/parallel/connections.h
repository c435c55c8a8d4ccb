// The TCP connections of a process group, to break them from outside: Gloo cannot be told to give
// up a collective, but it notices at once that a connection ended. They are known by the addresses
// that the ranks told each other when they met, so that nobody else's connection is ever touched.
// Without LibTorch.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster {

// A socket and not merely a number: a descriptor's number is used again after it was closed.
struct SocketIdentity {
  int fd = -1;
  ino_t inode = 0;
  bool operator==(const SocketIdentity&) const = default;
};

// Every connected TCP socket of this process with an end at an address that stands in one of the
// messages (a sockaddr_in or sockaddr_in6, as Gloo writes where its group listens). Empty where
// /proc is not mounted.
std::vector<SocketIdentity> connections_at(const std::vector<std::string>& messages);

// Whether the other side of one of them, or this process, has ended it. Any thread; does not wait.
bool any_is_broken(const std::vector<SocketIdentity>& sockets) noexcept;

// Ends the connections in both directions; the descriptors stay with their owner. Passes over what
// is closed meanwhile. Any thread.
void break_connections(const std::vector<SocketIdentity>& sockets) noexcept;

}  // namespace muster
