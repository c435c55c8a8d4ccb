// Checks an ID token (OpenID Connect Core, section 3.1.3.7), and returns who signed in. Pure except for
// OpenSSL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/oidc/keys.h"

namespace muster::coordinator::oidc {

struct Expected {
  std::string issuer;
  std::string client_id;
  int64_t now_ms = 0;
};

// The clocks of the provider and of this machine may differ by this much.
inline constexpr int64_t kClocksDifferByS = 60;
// The greatest age of a token: it must have been issued for our request.
inline constexpr int64_t kIssuedAgoMostS = 3'600;
inline constexpr size_t kSubjectMax = 255;

// The token's subject: letters, digits and "-._~:|@=+/,%", because it becomes part of a user's record and
// of commands that people copy. NOT_FOUND: none of the keys is the one that the token names.
// UNAUTHENTICATED: why it is refused. Both without a code.
absl::StatusOr<std::string> CheckIdToken(std::string_view token, const std::vector<Key>& keys,
                                         const Expected& expected);

}  // namespace muster::coordinator::oidc
