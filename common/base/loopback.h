// Whether a host or an address is this machine itself, or an address at all. Pure.
#pragma once

#include <sys/socket.h>

#include <string_view>

namespace muster::common {

// "localhost", "::1", or a whole address of 127.0.0.0/8: 127.0.0.1.evil.example is a name. Resolves
// nothing.
bool IsLoopbackHost(std::string_view host);
bool IsLoopback(const sockaddr& address);
// An IPv4 or IPv6 address in numbers, without a scope.
bool IsIpAddress(std::string_view host);

}  // namespace muster::common
