#include "coordinator/oidc/id_token.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/oidc/answers.h"

namespace muster::coordinator::oidc {
namespace {

using common::StrCat;

absl::Status Refused(const std::string& why) { return absl::UnauthenticatedError(why); }

struct Parts {
  std::string_view is_signed;  // the signature covers it
  std::string head;            // JSON
  std::string claims;          // JSON
  std::string signature;
};

std::optional<Parts> SplitToken(std::string_view token) {
  const size_t first = token.find('.');
  const size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  auto head = FromBase64Url(token.substr(0, first));
  auto claims = FromBase64Url(token.substr(first + 1, second - first - 1));
  // Refuses a third dot, which is not in the alphabet.
  auto signature = FromBase64Url(token.substr(second + 1));
  if (!head.has_value() || !claims.has_value() || !signature.has_value()) return std::nullopt;
  return Parts{.is_signed = token.substr(0, second),
               .head = *std::move(head),
               .claims = *std::move(claims),
               .signature = *std::move(signature)};
}

// The key that the head names; if it names none, the only key of its kind.
absl::StatusOr<const Key*> KeyFor(const TokenHead& head, const std::vector<Key>& keys) {
  // Only these two, whatever algorithm a key states: "none" and HS256 would let the token's author
  // choose how it is checked.
  if (head.algorithm != "RS256" && head.algorithm != "ES256") {
    return Refused(StrCat("it is signed with ", common::Printable(head.algorithm),
                          "; only RS256 and ES256 are accepted"));
  }
  std::vector<const Key*> found;
  for (const Key& key : keys) {
    const bool is_named = head.key_id.empty() || key.id == head.key_id;
    if (is_named && key.is_rsa == (head.algorithm == "RS256")) found.push_back(&key);
  }
  if (found.size() == 1) return found.front();
  if (!found.empty()) return Refused("several of the provider's keys could be its own");
  return absl::NotFoundError(StrCat("the provider has no key \"", common::Printable(head.key_id),
                                    "\" for ", head.algorithm));
}

absl::Status CheckAudience(const Claims& claims, const std::string& client_id) {
  const auto& all = claims.audiences;
  if (std::find(all.begin(), all.end(), client_id) == all.end())
    return Refused(StrCat("it is not for this client (aud does not have ", client_id, ")"));
  if (all.size() > 1 && claims.authorized_party.empty())
    return Refused("it is for several clients, and does not name the one that asked (azp)");
  if (!claims.authorized_party.empty() && claims.authorized_party != client_id)
    return Refused("another client asked for it (azp)");
  return absl::OkStatus();
}

absl::Status CheckTimes(const Claims& claims, int64_t now_s) {
  if (claims.expires_s <= now_s - kClocksDifferByS) return Refused("it has expired (exp)");
  if (claims.issued_s > now_s + kClocksDifferByS)
    return Refused("it was issued in the future (iat); do the clocks differ?");
  if (claims.issued_s < now_s - kIssuedAgoMostS)
    return Refused("it was issued too long ago (iat); do the clocks differ?");
  if (claims.not_before_s.has_value() && *claims.not_before_s > now_s + kClocksDifferByS)
    return Refused("it is not valid yet (nbf)");
  return absl::OkStatus();
}

absl::Status CheckSubject(const std::string& subject) {
  const bool is_fit = std::all_of(subject.begin(), subject.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._~:|@=+/,%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_fit && !subject.empty() && subject.size() <= kSubjectMax) return absl::OkStatus();
  return Refused(
      StrCat("its subject (sub) is not 1 to ", kSubjectMax, " letters, digits and -._~:|@=+/,%"));
}

}  // namespace

absl::StatusOr<std::string> CheckIdToken(std::string_view token, const std::vector<Key>& keys,
                                         const Expected& expected) {
  const std::optional<Parts> parts = SplitToken(token);
  if (!parts.has_value()) return Refused("it is not three parts of base64url");
  const absl::StatusOr<TokenHead> head = ReadTokenHead(parts->head);
  if (!head.ok()) return Refused(StrCat("its head: ", head.status().message()));
  ASSIGN_OR_RETURN(const Key* key, KeyFor(*head, keys));
  if (!IsSignedWith(*key, parts->is_signed, parts->signature))
    return Refused("its signature is not that of the provider's key");
  const absl::StatusOr<Claims> claims = ReadClaims(parts->claims);
  if (!claims.ok()) return Refused(StrCat("its claims: ", claims.status().message()));
  if (claims->issuer != expected.issuer) {
    return Refused(StrCat("its issuer (iss) is ", common::Printable(claims->issuer), ", not ",
                          expected.issuer));
  }
  RETURN_IF_ERROR(CheckAudience(*claims, expected.client_id));
  RETURN_IF_ERROR(CheckTimes(*claims, expected.now_ms / 1'000));
  RETURN_IF_ERROR(CheckSubject(claims->subject));
  return claims->subject;
}

}  // namespace muster::coordinator::oidc
