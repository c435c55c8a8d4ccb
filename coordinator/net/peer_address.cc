#include "coordinator/net/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>

#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::string_view kIpv6Peer = "peer:[";
constexpr size_t kNetworkBytes = 8;  // a /64

const sockaddr_in6& AsIpv6(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

std::string TextOfIpv6(const in6_addr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &address, text, sizeof text);
  return text;
}

}  // namespace

std::string AddressText(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return TextOfIpv6(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  char text[INET_ADDRSTRLEN] = "?";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  }
  return text;
}

std::string PeerPrincipal(const sockaddr_storage& address) {
  const std::string text = AddressText(address);
  return address.ss_family == AF_INET6 ? StrCat(kIpv6Peer, text, "]") : StrCat("peer:", text);
}

std::string GrpcNameOf(const sockaddr_storage& address) {
  const std::string text = AddressText(address);
  if (address.ss_family != AF_INET6) {
    return StrCat("ipv4:", text, ":",
                  ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port));
  }
  const sockaddr_in6& v6 = AsIpv6(address);
  const std::string zone = v6.sin6_scope_id == 0 ? "" : StrCat("%25", v6.sin6_scope_id);
  return StrCat("ipv6:%5B", text, zone, "%5D:", ntohs(v6.sin6_port));
}

std::string NetworkOf(std::string_view principal) {
  if (!principal.starts_with(kIpv6Peer)) return std::string(principal);
  std::string_view text = principal.substr(kIpv6Peer.size());
  text = text.substr(0, text.find_first_of("%]"));
  in6_addr address{};
  if (inet_pton(AF_INET6, std::string(text).c_str(), &address) != 1) return std::string(principal);
  // Each IPv4-mapped address like ::ffff:10.0.0.7 is a separate peer.
  if (IN6_IS_ADDR_V4MAPPED(&address)) return std::string(principal);
  std::fill(std::begin(address.s6_addr) + kNetworkBytes, std::end(address.s6_addr), 0);
  return StrCat(kIpv6Peer, TextOfIpv6(address), "]/64");
}

}  // namespace muster::coordinator
