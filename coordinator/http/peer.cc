#include "coordinator/http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "common/strings.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

std::string AddressText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr, text,
              sizeof text);
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr, text,
              sizeof text);
  }
  return text;
}

}  // namespace

Peer PeerOf(int fd, bool is_unix, bool own_uid_only) {
  if (is_unix) {
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    if (own_uid_only && who.uid != getuid() && who.uid != 0) return {};
    return {.principal = StrCat("uid:", who.uid), .local_address = ""};
  }
  sockaddr_storage remote{};
  sockaddr_storage local{};
  socklen_t remote_size = sizeof remote;
  socklen_t local_size = sizeof local;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) {
    return {};
  }
  const std::string from = AddressText(remote);
  return {.principal =
              remote.ss_family == AF_INET6 ? StrCat("peer:[", from, "]") : StrCat("peer:", from),
          .local_address = AddressText(local)};
}

}  // namespace muster::coordinator::http
