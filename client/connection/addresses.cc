#include "client/connection/addresses.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "common/address_list.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::client {

std::vector<std::string> SplitAddresses(std::string_view list) {
  if (list.starts_with("unix:")) return {std::string(list)};
  std::vector<std::string> addresses;
  while (true) {
    const size_t comma = list.find(',');
    addresses.emplace_back(absl::StripAsciiWhitespace(common::ToAbsl(list.substr(0, comma))));
    if (comma == std::string_view::npos) return addresses;
    list.remove_prefix(comma + 1);
  }
}

std::vector<std::string> MergeAddresses(const std::vector<std::string>& first,
                                        const std::vector<std::string>& second) {
  return common::MergeAddresses(first, second, kAddressesMax);
}

bool HaveSameAddresses(std::vector<std::string> one, std::vector<std::string> other) {
  std::sort(one.begin(), one.end());
  std::sort(other.begin(), other.end());
  return one == other;
}

bool ShareAddress(std::string_view one, std::string_view other) {
  const std::vector<std::string> there = SplitAddresses(other);
  const std::vector<std::string> here = SplitAddresses(one);
  return std::any_of(here.begin(), here.end(), [&](const std::string& each) {
    return std::find(there.begin(), there.end(), each) != there.end();
  });
}

bool IsHostAndPort(std::string_view address) {
  constexpr size_t kHostBytesMax = 255;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon > kHostBytesMax) return false;
  const absl::StatusOr<int64_t> port = common::ParseInteger(address.substr(colon + 1));
  if (!port.ok() || *port < 1 || *port > 65535) return false;
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    return !host.empty() && host.find_first_not_of("0123456789abcdefABCDEF:.") == host.npos;
  }
  return std::all_of(host.begin(), host.end(), [](char each) {
    return absl::ascii_isalnum(static_cast<unsigned char>(each)) || each == '.' || each == '-' ||
           each == '_';
  });
}

std::vector<std::string> HostsAndPorts(std::vector<std::string> addresses) {
  std::erase_if(addresses, [](const std::string& each) { return !IsHostAndPort(each); });
  return MergeAddresses({}, addresses);
}

}  // namespace muster::client
