#include "coordinator/oidc/provider.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/oidc/id_token.h"

namespace muster::coordinator::oidc {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr std::string_view kWellKnown = "/.well-known/openid-configuration";
constexpr std::string_view kDeviceGrant = "urn:ietf:params:oauth:grant-type:device_code";

std::string WordsOf(const absl::Status& status) {
  return common::Printable(common::FromAbsl(status.message()));
}

enum class Again { kMayHelp, kIsUseless };

absl::Status Unusable(const std::string& issuer, const absl::Status& why, Again again) {
  return common::MakeProblem(again == Again::kMayHelp ? absl::StatusCode::kUnavailable
                                                      : absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1362",
                              .what = StrCat("the identity provider ", issuer, " cannot be used"),
                              .why = WordsOf(why)});
}

// Whether to ask again later: the provider did not answer, as opposed to a wrong answer.
Again AgainAfter(const absl::Status& why) {
  return absl::IsUnavailable(why) ? Again::kMayHelp : Again::kIsUseless;
}

bool IsOverloaded(const common::HttpResponse& response) {
  return response.status >= 500 || response.status == 429;
}

absl::Status TokenRefused(const std::string& issuer, std::string why) {
  return common::MakeProblem(absl::StatusCode::kUnauthenticated,
                             {.code = "JC1365",
                              .what = StrCat("the ID token of ", issuer, " is refused"),
                              .why = std::move(why)});
}

}  // namespace

absl::StatusOr<common::HttpResponse> Provider::Get(const common::HttpUrl& url) const {
  return call_({.url = url,
                .body = "",
                .headers = {{"Accept", "application/json"}},
                .may_call = [url](const sockaddr* to) { return CheckAddress(url, to); },
                .answer_max = kAnswerBytesMax});
}

absl::StatusOr<common::HttpResponse> Provider::Send(const Form& form) const {
  common::HttpCall call{
      .url = form.url,
      .body = StrCat("client_id=", common::PercentEncode(client_.client_id)),
      .content_type = "application/x-www-form-urlencoded",
      .headers = {{"Accept", "application/json"}},
      .may_call = [url = form.url](const sockaddr* to) { return CheckAddress(url, to); },
      .answer_max = kAnswerBytesMax};
  for (const auto& [name, value] : form.fields)
    StrAppend(&call.body, "&", name, "=", common::PercentEncode(value));
  if (!client_.secret.empty() && form.metadata.takes_basic) {
    const std::string pair = StrCat(common::PercentEncode(client_.client_id), ":",
                                    common::PercentEncode(client_.secret));
    call.headers.emplace_back("Authorization", StrCat("Basic ", absl::Base64Escape(pair)));
  } else if (!client_.secret.empty()) {
    StrAppend(&call.body, "&client_secret=", common::PercentEncode(client_.secret));
  }
  return call_(call);
}

absl::StatusOr<Metadata> Provider::Discovered(int64_t now_ms) {
  {
    const std::lock_guard lock(mutex_);
    if (metadata_.has_value() && now_ms < metadata_until_ms_) return *metadata_;
  }
  std::string_view base = client_.issuer;
  if (base.ends_with('/')) base.remove_suffix(1);
  ASSIGN_OR_RETURN(const common::HttpUrl url, ReadEndpoint(StrCat(base, kWellKnown)));
  ASSIGN_OR_RETURN(const common::HttpResponse response, Get(url));
  if (response.status != 200)
    return absl::UnavailableError(StrCat(base, kWellKnown, ": ", WordsOfRefusal(response)));
  const absl::StatusOr<Metadata> metadata = ReadMetadata(response.body, client_.issuer);
  if (!metadata.ok())
    return absl::UnavailableError(StrCat(base, kWellKnown, ": ", metadata.status().message()));
  const std::lock_guard lock(mutex_);
  metadata_ = *metadata;
  metadata_until_ms_ = now_ms + kRememberedMs;
  return *metadata;
}

absl::StatusOr<Provider::Keys> Provider::KeysOf(const Metadata& metadata, int64_t now_ms,
                                                bool again) {
  {
    const std::lock_guard lock(mutex_);
    if (!again && keys_ != nullptr && now_ms < keys_until_ms_) return keys_;
  }
  ASSIGN_OR_RETURN(const common::HttpResponse response, Get(metadata.keys));
  if (response.status != 200)
    return absl::UnavailableError(StrCat("its keys (jwks_uri): ", WordsOfRefusal(response)));
  const absl::StatusOr<std::vector<WrittenKey>> written = ReadWrittenKeys(response.body);
  if (!written.ok())
    return absl::UnavailableError(StrCat("its keys (jwks_uri): ", written.status().message()));
  const auto keys = std::make_shared<const std::vector<Key>>(MakeKeys(*written));
  const std::lock_guard lock(mutex_);
  keys_ = keys;
  keys_until_ms_ = now_ms + kRememberedMs;
  return keys;
}

absl::StatusOr<std::string> Provider::SubjectOf(const Metadata& metadata, const std::string& token,
                                                const Times& now) {
  const Expected expected{
      .issuer = client_.issuer, .client_id = client_.client_id, .now_ms = now.wall_ms};
  absl::StatusOr<std::string> subject = absl::NotFoundError("");
  // Tries again with new keys: the provider may have begun to sign with one that we do not know.
  for (const bool again : {false, true}) {
    const absl::StatusOr<Keys> keys = KeysOf(metadata, now.mono_ms, again);
    // The provider issues a token only once: another request would only report that the code was used.
    if (!keys.ok()) return Unusable(client_.issuer, keys.status(), Again::kIsUseless);
    subject = CheckIdToken(token, **keys, expected);
    if (!absl::IsNotFound(subject.status())) break;
  }
  if (subject.ok()) return subject;
  return TokenRefused(client_.issuer, WordsOf(subject.status()));
}

absl::StatusOr<DeviceGrant> Provider::Begin(const Times& now) {
  const absl::StatusOr<DeviceGrant> grant = [&]() -> absl::StatusOr<DeviceGrant> {
    ASSIGN_OR_RETURN(const Metadata metadata, Discovered(now.mono_ms));
    ASSIGN_OR_RETURN(const common::HttpResponse response,
                     Send({.metadata = metadata,
                           .url = metadata.device_endpoint,
                           .fields = {{"scope", client_.scope}}}));
    if (response.status == 200) return ReadDeviceGrant(response.body);
    return absl::UnavailableError(
        StrCat("it refuses to begin a sign-in: ", WordsOfRefusal(response)));
  }();
  if (grant.ok() || absl::IsCancelled(grant.status())) return grant;
  return Unusable(client_.issuer, grant.status(), AgainAfter(grant.status()));
}

absl::StatusOr<Provider::Answer> Provider::Ask(const std::string& device_code, const Times& now) {
  Metadata metadata;
  const absl::StatusOr<TokenAnswer> answer = [&]() -> absl::StatusOr<TokenAnswer> {
    ASSIGN_OR_RETURN(metadata, Discovered(now.mono_ms));
    ASSIGN_OR_RETURN(const common::HttpResponse response,
                     Send({.metadata = metadata,
                           .url = metadata.token_endpoint,
                           .fields = {{"grant_type", std::string(kDeviceGrant)},
                                      {"device_code", device_code}}}));
    if (IsOverloaded(response)) return absl::UnavailableError(WordsOfRefusal(response));
    return ReadTokenAnswer(response);
  }();
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) return Unusable(client_.issuer, answer.status(), AgainAfter(answer.status()));
  Answer known{.kind = answer->kind, .subject = ""};
  if (known.kind == TokenAnswer::Kind::kToken) {
    ASSIGN_OR_RETURN(known.subject, SubjectOf(metadata, answer->id_token, now));
  }
  return known;
}

}  // namespace muster::coordinator::oidc
