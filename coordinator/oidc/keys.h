// The keys that a provider signs with. Pure but for OpenSSL.
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

// INVALID_ARGUMENT: RSA of less than 2048 or more than 8192 bits, or a point that is not on P-256.
absl::StatusOr<Key> MakeKey(const WrittenKey& written);
// Those of them that can be used: one that cannot does not take the others away.
std::vector<Key> MakeKeys(const std::vector<WrittenKey>& written);

// A signature as JWS writes it: PKCS #1 v1.5 of RSA, the two numbers of ECDSA; with SHA-256.
bool IsSignedWith(const Key& key, std::string_view bytes, std::string_view signature);

}  // namespace muster::coordinator::oidc
