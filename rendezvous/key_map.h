// A hash map by key that is searched with views.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace muster::rendezvous {

struct KeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

template <typename Value>
using KeyMap = absl::flat_hash_map<std::string, Value, KeyHash, std::equal_to<>>;

}  // namespace muster::rendezvous
