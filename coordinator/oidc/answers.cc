#include "coordinator/oidc/answers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/oidc/client.h"

namespace muster::coordinator::oidc {
namespace {

using common::StrCat;
using nlohmann::json;

constexpr size_t kTextMax = 512;
constexpr size_t kCodeMax = 4 * 1024;
constexpr size_t kUserCodeMax = 64;
constexpr size_t kTokenMax = 48 * 1024;
constexpr size_t kNumberTextMax = 2 * 1024;  // of a number in a key, base64
constexpr size_t kAudiencesMax = 64;
constexpr size_t kShownMax = 200;
constexpr int64_t kIntervalMostS = 60;
// limit: sign-in at an identity provider: how long one may take, whatever the provider allows
constexpr int64_t kGrantLivesMostS = 3'600;
// The latest date: the year 9999.
constexpr double kDateMostS = 253'402'300'799.0;

absl::Status Wrong(const std::string& why) { return absl::InvalidArgumentError(why); }

absl::StatusOr<json> ReadObject(std::string_view text) {
  if (text.size() > kAnswerBytesMax)
    return Wrong(StrCat("it has more than ", kAnswerBytesMax, " bytes"));
  if (common::NestsDeeper(text, kAnswerDepthMax))
    return Wrong(StrCat("it nests deeper than ", kAnswerDepthMax, " levels"));
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Wrong("it is not a JSON object");
  return object;
}

struct TextField {
  const char* name;
  size_t bytes_max = kTextMax;
};

// Empty if the field is absent. An empty field is an error, because it never means anything.
absl::StatusOr<std::string> TextIfAny(const json& object, const TextField& field) {
  const auto found = object.find(field.name);
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_string()) return Wrong(StrCat("\"", field.name, "\" is not a string"));
  std::string text = found->get<std::string>();
  if (text.empty() || text.size() > field.bytes_max)
    return Wrong(StrCat("\"", field.name, "\" does not have 1 to ", field.bytes_max, " bytes"));
  return text;
}

absl::StatusOr<std::string> Text(const json& object, const TextField& field) {
  ASSIGN_OR_RETURN(std::string text, TextIfAny(object, field));
  if (text.empty()) return Wrong(StrCat("it has no \"", field.name, "\""));
  return text;
}

absl::StatusOr<std::string> VisibleText(const json& object, const TextField& field) {
  ASSIGN_OR_RETURN(std::string text, Text(object, field));
  if (std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; }))
    return text;
  return Wrong(StrCat("\"", field.name, "\" has a blank or another character that is not visible"));
}

// Seconds, which some providers write with a fraction.
absl::StatusOr<std::optional<int64_t>> SecondsIfAny(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= 0 && value <= kDateMostS))
    return Wrong(StrCat("\"", name, "\" is not a number of seconds"));
  return static_cast<int64_t>(value);
}

absl::StatusOr<int64_t> Seconds(const json& object, const char* name) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value, SecondsIfAny(object, name));
  if (!value.has_value()) return Wrong(StrCat("it has no \"", name, "\""));
  return *value;
}

absl::StatusOr<common::HttpUrl> Endpoint(const json& object, const char* name) {
  ASSIGN_OR_RETURN(const std::string text,
                   Text(object, {.name = name, .bytes_max = common::kUrlBytesMax}));
  const absl::StatusOr<common::HttpUrl> url = ReadEndpoint(common::Printable(text));
  if (url.ok()) return url;
  return Wrong(StrCat("\"", name, "\": ", url.status().message()));
}

bool TakesBasic(const json& object) {
  const auto methods = object.find("token_endpoint_auth_methods_supported");
  if (methods == object.end() || !methods->is_array()) return true;
  const auto has = [&](std::string_view name) {
    return std::find(methods->begin(), methods->end(), name) != methods->end();
  };
  return has("client_secret_basic") || !has("client_secret_post");
}

// A page for a person to open: it is also shown, so it must be a plain URL.
absl::StatusOr<std::string> Page(const json& object, const char* name) {
  ASSIGN_OR_RETURN(std::string text,
                   TextIfAny(object, {.name = name, .bytes_max = common::kUrlBytesMax}));
  if (text.empty()) return text;
  if (const absl::StatusOr<common::HttpUrl> url = ReadEndpoint(common::Printable(text)); !url.ok())
    return Wrong(StrCat("\"", name, "\": ", url.status().message()));
  return text;
}

absl::StatusOr<std::string> KeyNumber(const json& key, const char* name) {
  ASSIGN_OR_RETURN(const std::string text, Text(key, {.name = name, .bytes_max = kNumberTextMax}));
  std::optional<std::string> bytes = FromBase64Url(text);
  if (!bytes.has_value()) return Wrong(StrCat("\"", name, "\" of a key is not base64url"));
  return *std::move(bytes);
}

// Whether a key is meant for signatures with one of our algorithms.
bool IsOfUse(const json& key, std::string_view kind, std::string_view algorithm) {
  return key.value("kty", json()) == kind && (!key.contains("alg") || key["alg"] == algorithm) &&
         (!key.contains("use") || key["use"] == "sig");
}

absl::StatusOr<std::vector<std::string>> Audiences(const json& claims) {
  const auto found = claims.find("aud");
  if (found != claims.end() && found->is_array() && found->size() <= kAudiencesMax) {
    std::vector<std::string> all;
    for (const json& each : *found) {
      if (!each.is_string()) return Wrong("\"aud\" names something that is not a string");
      all.push_back(each.get<std::string>());
    }
    return all;
  }
  ASSIGN_OR_RETURN(std::string only, Text(claims, {.name = "aud"}));
  return std::vector<std::string>{std::move(only)};
}

}  // namespace

std::optional<std::string> FromBase64Url(std::string_view text) {
  const bool is_alphabet = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  std::string bytes;
  if (!is_alphabet || text.size() % 4 == 1) return std::nullopt;
  if (!absl::WebSafeBase64Unescape(common::ToAbsl(text), &bytes)) return std::nullopt;
  return bytes;
}

absl::StatusOr<Metadata> ReadMetadata(std::string_view text, std::string_view issuer) {
  ASSIGN_OR_RETURN(const json object, ReadObject(text));
  ASSIGN_OR_RETURN(const std::string named, Text(object, {.name = "issuer"}));
  if (named != issuer) {
    return Wrong(StrCat("it is of the issuer \"", common::Printable(named), "\", not of \"", issuer,
                        "\"; --oidc-issuer must match it exactly"));
  }
  if (!object.contains("device_authorization_endpoint"))
    return Wrong(
        "it has no \"device_authorization_endpoint\": the provider must offer the device grant");
  Metadata metadata;
  ASSIGN_OR_RETURN(metadata.device_endpoint, Endpoint(object, "device_authorization_endpoint"));
  ASSIGN_OR_RETURN(metadata.token_endpoint, Endpoint(object, "token_endpoint"));
  ASSIGN_OR_RETURN(metadata.keys, Endpoint(object, "jwks_uri"));
  metadata.takes_basic = TakesBasic(object);
  return metadata;
}

absl::StatusOr<std::vector<WrittenKey>> ReadWrittenKeys(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, ReadObject(text));
  const auto keys = object.find("keys");
  if (keys == object.end() || !keys->is_array()) return Wrong("it has no list \"keys\"");
  if (keys->size() > kKeysMax) return Wrong(StrCat("it has more than ", kKeysMax, " keys"));
  std::vector<WrittenKey> found;
  for (const json& each : *keys) {
    if (!each.is_object()) return Wrong("a key is not an object");
    WrittenKey key{.id = "", .is_rsa = IsOfUse(each, "RSA", "RS256"), .first = "", .second = ""};
    const bool is_p256 = IsOfUse(each, "EC", "ES256") && each.value("crv", json()) == "P-256";
    if (!key.is_rsa && !is_p256) continue;
    ASSIGN_OR_RETURN(key.id, TextIfAny(each, {.name = "kid"}));
    ASSIGN_OR_RETURN(key.first, KeyNumber(each, key.is_rsa ? "n" : "x"));
    ASSIGN_OR_RETURN(key.second, KeyNumber(each, key.is_rsa ? "e" : "y"));
    found.push_back(std::move(key));
  }
  return found;
}

absl::StatusOr<DeviceGrant> ReadDeviceGrant(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, ReadObject(text));
  DeviceGrant grant;
  ASSIGN_OR_RETURN(grant.device_code,
                   VisibleText(object, {.name = "device_code", .bytes_max = kCodeMax}));
  ASSIGN_OR_RETURN(grant.user_code, Text(object, {.name = "user_code", .bytes_max = kUserCodeMax}));
  if (!common::IsCleanUtf8(grant.user_code)) return Wrong("\"user_code\" is not clean text");
  ASSIGN_OR_RETURN(grant.verification_uri, Page(object, "verification_uri"));
  if (grant.verification_uri.empty()) {
    // The draft's name, which a large provider still uses.
    ASSIGN_OR_RETURN(grant.verification_uri, Page(object, "verification_url"));
  }
  if (grant.verification_uri.empty()) return Wrong("it has no \"verification_uri\"");
  ASSIGN_OR_RETURN(grant.verification_uri_complete, Page(object, "verification_uri_complete"));
  ASSIGN_OR_RETURN(const int64_t expires_s, Seconds(object, "expires_in"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> interval_s, SecondsIfAny(object, "interval"));
  if (expires_s < 1) return Wrong("\"expires_in\" leaves no time");
  grant.expires_s = std::min(expires_s, kGrantLivesMostS);
  if (interval_s.has_value())
    grant.interval_s = std::clamp(*interval_s, int64_t{1}, kIntervalMostS);
  return grant;
}

absl::StatusOr<TokenAnswer> ReadTokenAnswer(const common::HttpResponse& response) {
  using Kind = TokenAnswer::Kind;
  ASSIGN_OR_RETURN(const json object, ReadObject(response.body));
  if (response.status == 200) {
    TokenAnswer answer{.kind = Kind::kToken, .id_token = ""};
    ASSIGN_OR_RETURN(answer.id_token,
                     VisibleText(object, {.name = "id_token", .bytes_max = kTokenMax}));
    return answer;
  }
  ASSIGN_OR_RETURN(const std::string error, Text(object, {.name = "error"}));
  if (error == "authorization_pending") return TokenAnswer{.kind = Kind::kPending, .id_token = ""};
  if (error == "slow_down") return TokenAnswer{.kind = Kind::kSlowDown, .id_token = ""};
  if (error == "access_denied") return TokenAnswer{.kind = Kind::kDenied, .id_token = ""};
  if (error == "expired_token") return TokenAnswer{.kind = Kind::kExpired, .id_token = ""};
  return Wrong(WordsOfRefusal(response));
}

std::string WordsOfRefusal(const common::HttpResponse& response) {
  std::string words = StrCat("HTTP status ", response.status);
  const absl::StatusOr<json> object = ReadObject(response.body);
  if (!object.ok()) return words;
  for (const auto& [name, before] :
       {std::pair("error", ", "), std::pair("error_description", ": ")}) {
    const absl::StatusOr<std::string> text = TextIfAny(*object, {.name = name});
    if (text.ok() && !text->empty())
      common::StrAppend(&words, before, common::Printable(text->substr(0, kShownMax)));
  }
  return words;
}

absl::StatusOr<TokenHead> ReadTokenHead(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, ReadObject(text));
  // Extensions that must be understood; we know none.
  if (object.contains("crit")) return Wrong("its head demands an extension (\"crit\")");
  TokenHead head;
  ASSIGN_OR_RETURN(head.algorithm, Text(object, {.name = "alg"}));
  ASSIGN_OR_RETURN(head.key_id, TextIfAny(object, {.name = "kid"}));
  return head;
}

absl::StatusOr<Claims> ReadClaims(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, ReadObject(text));
  Claims claims;
  ASSIGN_OR_RETURN(claims.issuer, Text(object, {.name = "iss"}));
  ASSIGN_OR_RETURN(claims.subject, Text(object, {.name = "sub"}));
  ASSIGN_OR_RETURN(claims.audiences, Audiences(object));
  ASSIGN_OR_RETURN(claims.authorized_party, TextIfAny(object, {.name = "azp"}));
  ASSIGN_OR_RETURN(claims.expires_s, Seconds(object, "exp"));
  ASSIGN_OR_RETURN(claims.issued_s, Seconds(object, "iat"));
  ASSIGN_OR_RETURN(claims.not_before_s, SecondsIfAny(object, "nbf"));
  return claims;
}

}  // namespace muster::coordinator::oidc
