// The addresses of coordinators that replace each other, as people type and files keep them:
// "a:7700,b:7700". A socket, "unix:/PATH", is one address, whatever its path contains. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

// limit: jobctl: addresses of one cluster's coordinators that are tried; others are left out
inline constexpr size_t kAddressesMax = 16;

std::vector<std::string> SplitAddresses(std::string_view list);
// Those of `first`, then those of `second` that are not among them; at most kAddressesMax.
std::vector<std::string> MergeAddresses(const std::vector<std::string>& first,
                                        const std::vector<std::string>& second);
// Whether two lists have the same addresses, in whatever order.
bool HaveSameAddresses(std::vector<std::string> one, std::vector<std::string> other);
// Whether two lists have an address in common: then they are lists of one cluster.
bool ShareAddress(std::string_view one, std::string_view other);

// A host and a port and nothing else. What a coordinator names as another's address is dialed, and
// stored, only then: it must not lead to a socket of this machine, or to a scheme of gRPC's.
bool IsHostAndPort(std::string_view address);
// Those of `addresses` that are.
std::vector<std::string> HostsAndPorts(std::vector<std::string> addresses);

}  // namespace muster::client
