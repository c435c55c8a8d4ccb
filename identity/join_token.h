// The text of a token, as a person copies it: muster1.PIN.ID.SECRET. It pins the cluster's authority,
// so that its user recognizes the right coordinator before sending the secret. Pure, except for
// MakeTokenSecret.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::identity {

struct TokenText {
  std::string authority;  // Fingerprint of the authority: 64 lower-case hex digits
  std::string id;         // public: 12 lower-case letters and digits
  std::string secret;     // 43 characters, 256 bits
};

std::string FormatToken(const TokenText& token);
// INVALID_ARGUMENT (JC1322). The error never contains the secret.
absl::StatusOr<TokenText> ParseToken(std::string_view text);
// What is stored of the secret: its SHA-256, 32 bytes. The secret has 256 random bits, so it needs no salt.
std::string HashOfSecret(std::string_view secret);
std::string MakeTokenId();
std::string MakeTokenSecret();

}  // namespace muster::identity
