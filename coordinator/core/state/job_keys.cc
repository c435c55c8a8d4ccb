#include "coordinator/core/state/job_keys.h"

#include <charconv>

#include "common/hash/sha256.h"

namespace muster::coordinator {

KeyId KeyOf(const std::string& owner, const std::string& key) {
  const std::string hex = common::Sha256Hex(owner + '\0' + key);
  KeyId id;
  std::from_chars(hex.data(), hex.data() + 16, id.high, 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, id.low, 16);
  return id;
}

}  // namespace muster::coordinator
