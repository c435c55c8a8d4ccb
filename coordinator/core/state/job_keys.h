// The jobs of idempotency keys, forever. Without the keys' texts: small pieces that stay, between the large ones of jobs
// that end, would keep all their memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace muster::coordinator {

// The first 128 bits of the SHA-256 of an owner and a key.
struct KeyId {
  uint64_t high = 0, low = 0;
  bool operator==(const KeyId&) const = default;
  template <typename Hash>
  friend Hash AbslHashValue(Hash hash, const KeyId& id) {
    return Hash::combine(std::move(hash), id.high, id.low);
  }
};
KeyId KeyOf(const std::string& owner, const std::string& key);

// The job that a key identifies.
struct KeyEntry {
  uint64_t job = 0;
  uint64_t spec_hash = 0;
};
using JobKeys = absl::flat_hash_map<KeyId, KeyEntry>;

}  // namespace muster::coordinator
