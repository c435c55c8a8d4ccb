#include "coordinator/etcd/address.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/text/strings.h"

namespace muster::coordinator::etcd {
namespace {

using common::StrCat;

constexpr std::string_view kPlain = "etcd://";
constexpr std::string_view kTls = "etcds://";

absl::Status Invalid(const std::string& why) {
  return absl::InvalidArgumentError(
      StrCat(why, "; it must be like etcd://h1:2379,h2:2379,h3:2379/NAME, or etcds:// for TLS"));
}

bool IsNameCharacter(char c) {
  return isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool IsHostAndPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view port = text.substr(colon + 1);
  return !port.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  Address address;
  address.is_tls = text.starts_with(kTls);
  if (!address.is_tls && !text.starts_with(kPlain)) return Invalid("it names no etcd");
  text.remove_prefix(address.is_tls ? kTls.size() : kPlain.size());
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return Invalid("the cluster's name is missing");
  address.name = text.substr(slash + 1);
  if (address.name.empty() || address.name.size() > kNameBytesMost ||
      !std::all_of(address.name.begin(), address.name.end(), IsNameCharacter)) {
    return Invalid("the cluster's name must be 1 to 100 letters, digits, '-', '_' and '.'");
  }
  address.endpoints = absl::StrSplit(common::ToAbsl(text.substr(0, slash)), ',');
  if (address.endpoints.size() > kEndpointsMost) return Invalid("it names more than 16 members");
  for (const std::string& endpoint : address.endpoints) {
    if (!IsHostAndPort(endpoint)) return Invalid(StrCat("\"", endpoint, "\" is not HOST:PORT"));
  }
  return address;
}

std::string TextOf(const Address& address) {
  return StrCat(address.is_tls ? kTls : kPlain, absl::StrJoin(address.endpoints, ","), "/",
                address.name);
}

}  // namespace muster::coordinator::etcd
