// The process's connected TCP sockets, to break those of a process group from outside: Gloo cannot
// be told to give up a collective, but it notices at once that a connection ended. Without
// LibTorch.
#pragma once

#include <sys/types.h>

#include <vector>

namespace muster {

// A socket and not merely a number: a descriptor's number is used again after it was closed.
struct SocketIdentity {
  int fd = -1;
  ino_t inode = 0;
  bool operator==(const SocketIdentity&) const = default;
};

// Every connected TCP socket of this process. Empty where /proc is not mounted.
std::vector<SocketIdentity> connected_sockets();

// Those of `after` that are not among `before`.
std::vector<SocketIdentity> new_sockets(const std::vector<SocketIdentity>& before,
                                        const std::vector<SocketIdentity>& after);

// Whether the other side of one of them, or this process, has ended it. Any thread; does not wait.
bool any_is_broken(const std::vector<SocketIdentity>& sockets) noexcept;

// Ends the connections in both directions; the descriptors stay with their owner. Passes over what
// is closed meanwhile. Any thread.
void break_connections(const std::vector<SocketIdentity>& sockets) noexcept;

}  // namespace muster
