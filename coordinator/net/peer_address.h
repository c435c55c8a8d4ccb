// Addresses of peers, as texts. An IPv6 address of one link has a zone ("fe80::1%2"), which is only
// this machine's name for the link: it is left out, except where gRPC's own text has it. Pure; any
// thread.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace muster::coordinator {

// "10.0.0.7", "::1"; "?" for other families.
std::string AddressText(const sockaddr* address);
inline std::string AddressText(const sockaddr_storage& address) {
  return AddressText(reinterpret_cast<const sockaddr*>(&address));
}
// "peer:10.0.0.7", "peer:[::1]".
std::string PeerPrincipal(const sockaddr_storage& address);
// gRPC's name for a connection on which it made TLS: "ipv4:10.0.0.7:41180",
// "ipv6:%5Bfe80::1%252%5D:41180".
std::string GrpcNameOf(const sockaddr_storage& address);

// Maps addresses that one peer can have many of to one text: an IPv6 principal to its /64, the
// smallest block that a provider gives to a customer. Every other text stays as it is.
std::string NetworkOf(std::string_view principal);

}  // namespace muster::coordinator
