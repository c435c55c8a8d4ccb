// Whose process has the other end of a connection on this host. Asks the kernel (sock_diag), which every user may.
#pragma once

#include <sys/types.h>

#include <optional>

namespace muster::rendezvous {

// `fd`: a connected TCP socket over IPv4. nullopt: the peer is gone, or the kernel does not tell.
std::optional<uid_t> AccountOfPeer(int fd);

}  // namespace muster::rendezvous
