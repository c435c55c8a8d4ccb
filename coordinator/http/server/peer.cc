#include "coordinator/http/server/peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/text/strings.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator::http {

Peer PeerOf(int fd, bool is_unix, bool own_uid_only) {
  if (is_unix) {
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    if (own_uid_only && who.uid != getuid() && who.uid != 0) return {};
    return {.principal = common::StrCat("uid:", who.uid), .local_address = ""};
  }
  sockaddr_storage remote{};
  sockaddr_storage local{};
  socklen_t remote_size = sizeof remote;
  socklen_t local_size = sizeof local;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) {
    return {};
  }
  return {.principal = PeerPrincipal(remote), .local_address = AddressText(local)};
}

}  // namespace muster::coordinator::http
