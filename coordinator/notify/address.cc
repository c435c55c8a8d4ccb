#include "coordinator/notify/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/text/strings.h"
#include "common/text/units.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator {
namespace {

using Bytes = std::array<uint8_t, 16>;

// Not public. Source: IANA's special-purpose address registries (RFC 6890), RFC 4291.
constexpr std::string_view kNotPublic[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",
    "::/128",        "::1/128",         "100::/64",       "2001::/23",      "2001:db8::/32",
    "fc00::/7",      "fe80::/10",       "fec0::/10",      "ff00::/8"};
// IPv6 addresses that carry an IPv4 address: only the latter is checked.
struct Carrier {
  std::string_view network;
  size_t at;  // of the IPv4 address, in bytes
};
constexpr Carrier kCarriers[] = {{"64:ff9b::/96", 12}, {"2002::/16", 2}, {"::/96", 12}};

Bytes Mapped(const void* v4) {
  Bytes bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(&bytes[12], v4, 4);
  return bytes;
}

bool IsIn(const Bytes& address, const Network& network) {
  const int whole = network.bits / 8;
  if (!std::equal(address.begin(), address.begin() + whole, network.bytes.begin())) return false;
  const int rest = network.bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff << (8 - rest));
  return (address[whole] & mask) == (network.bytes[whole] & mask);
}

bool IsPublic(const Bytes& address) {
  for (const std::string_view each : kNotPublic) {
    if (IsIn(address, *ParseNetwork(each))) return false;
  }
  for (const Carrier& carrier : kCarriers) {
    if (IsIn(address, *ParseNetwork(carrier.network)) && !IsPublic(Mapped(&address[carrier.at])))
      return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Network> ParseNetwork(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  Network network;
  in_addr v4{};
  in6_addr v6{};
  int most = 0;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    network.bytes = Mapped(&v4);
    most = 32;
  } else if (inet_pton(AF_INET6, address.c_str(), &v6) == 1) {
    std::memcpy(network.bytes.data(), &v6, network.bytes.size());
    most = 128;
  }
  int64_t bits = most;
  if (slash != std::string_view::npos)
    bits = common::ParseInteger(text.substr(slash + 1)).value_or(-1);
  if (most == 0 || bits < 0 || bits > most) {
    return absl::InvalidArgumentError(
        common::StrCat("\"", text, "\" is not a network like 10.0.0.0/8 or fd00::/8"));
  }
  network.bits = static_cast<int>(bits) + 128 - most;
  return network;
}

bool MayCall(const sockaddr* address, const std::vector<Network>& allowed) {
  Bytes bytes{};
  if (address->sa_family == AF_INET) {
    bytes = Mapped(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  } else {
    return false;
  }
  return IsPublic(bytes) || std::any_of(allowed.begin(), allowed.end(),
                                        [&](const Network& each) { return IsIn(bytes, each); });
}

absl::Status CheckMayCall(const std::string& host, const sockaddr* address,
                          const std::vector<Network>& allowed) {
  if (MayCall(address, allowed)) return absl::OkStatus();
  const std::string text = AddressText(address);
  return absl::PermissionDeniedError(common::StrCat(
      host, " is ", text,
      ", which is not public; the operator can allow it: muster-coordinator --notify-allow ",
      text));
}

}  // namespace muster::coordinator
