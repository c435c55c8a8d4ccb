#include "common/base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace muster::common {
namespace {

bool IsLoopback4(in_addr address) { return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET; }

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  if (host.find('\0') != std::string_view::npos)
    return false;  // where inet_pton would stop reading
  in_addr address{};
  if (inet_pton(AF_INET, std::string(host).c_str(), &address) == 1) return IsLoopback4(address);
  return host == "localhost" || host == "::1";
}

bool IsIpAddress(std::string_view host) {
  if (host.find('\0') != std::string_view::npos) return false;
  in6_addr address{};
  const std::string text(host);
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return IsLoopback4(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace muster::common
