// The keys that a provider signs with. Pure except for OpenSSL.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/oidc/answers.h"
#include "identity/keys.h"

namespace muster::coordinator::oidc {

struct Key {
  std::string id;
  bool is_rsa = false;  // RS256, else ES256
  identity::KeyHandle key;
};

// INVALID_ARGUMENT: RSA with less than 2048 or more than 8192 bits, or a point that is not on P-256.
absl::StatusOr<Key> MakeKey(const WrittenKey& written);
// The usable ones: an unusable key does not affect the others.
std::vector<Key> MakeKeys(const std::vector<WrittenKey>& written);

// A signature in JWS form: PKCS #1 v1.5 for RSA, the two numbers for ECDSA; with SHA-256.
bool IsSignedWith(const Key& key, std::string_view bytes, std::string_view signature);

}  // namespace muster::coordinator::oidc
