// etcd as `--state` names it: etcd://h1:2379,h2:2379/NAME, etcds:// for TLS. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator::etcd {

struct Address {
  std::vector<std::string> endpoints;  // HOST:PORT
  std::string name;                    // all keys begin with "/NAME/"
  bool is_tls = false;
};

inline constexpr size_t kEndpointsMost = 16;
inline constexpr size_t kNameBytesMost = 100;

// INVALID_ARGUMENT tells what is wrong with it.
absl::StatusOr<Address> ParseAddress(std::string_view text);
// As ParseAddress would read it.
std::string TextOf(const Address& address);

}  // namespace muster::coordinator::etcd
