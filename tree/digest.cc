#include "tree/digest.h"

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/hash/hex.h"

namespace muster::tree {

Digest DigestOf(std::string_view bytes) {
  common::Sha256 hash;
  hash.Update(bytes);
  return Finish(hash);
}

Digest Finish(common::Sha256& hash) {
  const std::optional<Digest> digest = FromHex(hash.FinishHex());
  CHECK(digest.has_value());  // FinishHex always writes 64 hex digits
  return *digest;
}

std::string Hex(const Digest& digest) {
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()});
}

std::optional<Digest> FromHex(std::string_view hex) {
  if (!common::IsSha256Hex(hex)) return std::nullopt;
  const std::string bytes = *common::FromHex(hex);
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data(), digest.bytes.size());
  return digest;
}

}  // namespace muster::tree
