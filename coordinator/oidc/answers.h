// Reads an OpenID Connect provider's answers and tokens: foreign JSON, of which only the needed parts are
// read, with strict types and bounded sizes. Errors are INVALID_ARGUMENT without a code. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/http/response.h"
#include "common/text/url.h"

namespace muster::coordinator::oidc {

// limit: sign-in at an identity provider: an answer of the provider; JC1362
inline constexpr size_t kAnswerBytesMax = 64 * 1024;
// limit: sign-in at an identity provider: nesting of one; JC1362
inline constexpr size_t kAnswerDepthMax = 16;
inline constexpr size_t kKeysMax = 64;

// ISSUER/.well-known/openid-configuration. Its endpoints use encryption or are on this machine.
struct Metadata {
  common::HttpUrl device_endpoint;
  common::HttpUrl token_endpoint;
  common::HttpUrl keys;
  bool takes_basic = true;  // a client's secret in the Authorization field, else in the body
};
absl::StatusOr<Metadata> ReadMetadata(std::string_view json, std::string_view issuer);

// A key from jwks_uri that can verify signatures, in the form written there.
struct WrittenKey {
  std::string id;       // empty: it has none
  bool is_rsa = false;  // RS256, else ES256
  // Big-endian: n and e of RSA, x and y of P-256.
  std::string first;
  std::string second;
};
// Keys of other kinds are left out.
absl::StatusOr<std::vector<WrittenKey>> ReadWrittenKeys(std::string_view json);

// The answer of the device authorization endpoint (RFC 8628, section 3.2). Its texts are safe to show.
struct DeviceGrant {
  std::string device_code;
  std::string user_code;
  std::string verification_uri;
  std::string verification_uri_complete;  // empty: none
  int64_t interval_s = 5;
  int64_t expires_s = 0;
};
absl::StatusOr<DeviceGrant> ReadDeviceGrant(std::string_view json);

// The answer of the token endpoint (section 3.5).
struct TokenAnswer {
  enum class Kind { kToken, kPending, kSlowDown, kDenied, kExpired };
  Kind kind = Kind::kPending;
  std::string id_token;
};
absl::StatusOr<TokenAnswer> ReadTokenAnswer(const common::HttpResponse& response);
// An unexpected answer in words: "HTTP status 401, invalid_client: …".
std::string WordsOfRefusal(const common::HttpResponse& response);

// The head of a signed token.
struct TokenHead {
  std::string algorithm;
  std::string key_id;  // empty: none
};
absl::StatusOr<TokenHead> ReadTokenHead(std::string_view json);

struct Claims {
  std::string issuer;
  std::string subject;
  std::vector<std::string> audiences;
  std::string authorized_party;  // empty: none
  int64_t expires_s = 0;
  int64_t issued_s = 0;
  std::optional<int64_t> not_before_s;
};
absl::StatusOr<Claims> ReadClaims(std::string_view json);

// Decodes base64 in the URL alphabet, without padding. Nothing for any other text.
std::optional<std::string> FromBase64Url(std::string_view text);

}  // namespace muster::coordinator::oidc
