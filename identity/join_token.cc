#include "identity/join_token.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/hash/hex.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "identity/keys.h"

namespace muster::identity {
namespace {

constexpr std::string_view kVersion = "muster1";
constexpr size_t kPinDigits = 64;
constexpr size_t kIdBytes = 6;
constexpr size_t kSecretBytes = 32;
constexpr size_t kSecretCharacters = 43;
constexpr size_t kTextMax = 256;

absl::Status NotAToken(std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1322", .what = "this is not a token of Muster", .why = std::move(why)});
}

}  // namespace

std::string FormatToken(const TokenText& token) {
  return common::StrCat(kVersion, ".", token.authority, ".", token.id, ".", token.secret);
}

absl::StatusOr<TokenText> ParseToken(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  if (text.size() > kTextMax) return NotAToken("it is too long");
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '.');
  if (parts.size() != 4 || parts[0] != kVersion) {
    return NotAToken("a token has four parts with dots between them and begins with \"muster1.\"");
  }
  TokenText token{.authority = parts[1], .id = parts[2], .secret = parts[3]};
  if (token.authority.size() != kPinDigits || !common::FromHex(token.authority).has_value()) {
    return NotAToken("its second part is not a SHA-256");
  }
  if (token.id.size() != 2 * kIdBytes || !common::FromHex(token.id).has_value()) {
    return NotAToken("its third part is not a token's id");
  }
  if (token.secret.size() != kSecretCharacters) {
    return NotAToken("its last part is not whole; was the line cut when it was copied?");
  }
  const auto is_of_base64url = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  };
  if (!std::all_of(token.secret.begin(), token.secret.end(), is_of_base64url))
    return NotAToken("its last part has characters that no token has");
  return token;
}

std::string HashOfSecret(std::string_view secret) {
  std::string hash(32, '\0');
  if (EVP_Digest(secret.data(), secret.size(), reinterpret_cast<unsigned char*>(hash.data()),
                 nullptr, EVP_sha256(), nullptr) != 1) {
    // Out of memory: no secret makes it fail, and it must not count as another one.
    std::abort();
  }
  return hash;
}

std::string MakeTokenId() { return common::ToHex(RandomBytes(kIdBytes)); }

std::string MakeTokenSecret() { return absl::WebSafeBase64Escape(RandomBytes(kSecretBytes)); }

}  // namespace muster::identity
