#include "coordinator/s3/credential_chain.h"

#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/url.h"
#include "coordinator/s3/answers.h"
#include "coordinator/s3/credential_files.h"
#include "coordinator/s3/signature.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;
using std::chrono::milliseconds;

// A place has none: the next one is asked.
using Found = absl::StatusOr<std::optional<Credentials>>;

// Addresses that containers' services have, besides this machine.
constexpr std::string_view kContainerHost = "169.254.170.2";
constexpr std::string_view kPodHost = "169.254.170.23";
constexpr char kMetadataService[] = "http://169.254.169.254";

absl::Status NotUsable(std::string what, std::string why, std::string fix) {
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1640", .what = std::move(what), .why = std::move(why), .fix = std::move(fix)});
}

absl::StatusOr<std::string> Ask(const ChainLinks& links, common::Transfer call) {
  call.connect_within = milliseconds(1'000);  // these services are near, or are not there
  call.within = milliseconds(10'000);
  const std::string shown(common::WithoutQuery(call.url));
  ASSIGN_OR_RETURN(common::TransferAnswer answer, links.transfers->Run(call, links.stop));
  if (answer.status == 200) return std::move(answer.body);
  const ErrorAnswer error = ReadError(answer.body);
  const std::string text = StrCat(shown, " answers with HTTP status ", answer.status, " ",
                                  error.code, error.message.empty() ? "" : ": ", error.message);
  if (answer.status >= 500 || answer.status == 429) return absl::UnavailableError(text);
  return NotUsable("no credentials for the object store", text,
                   "look at the role that this machine or pod has");
}

Found OfEnvironment(const ChainLinks& links) {
  Credentials credentials{.access_key = links.environment("AWS_ACCESS_KEY_ID"),
                          .secret_key = links.environment("AWS_SECRET_ACCESS_KEY"),
                          .session_token = links.environment("AWS_SESSION_TOKEN")};
  if (credentials.access_key.empty() && credentials.secret_key.empty()) return std::nullopt;
  if (credentials.AreUsable()) return credentials;
  return NotUsable(
      "the credentials in the environment cannot be used",
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set, to visible characters",
      "set both, or neither");
}

struct WebIdentity {
  std::string token_file;
  std::string role;
  std::string session;
};

absl::StatusOr<Credentials> AssumeRole(const ChainLinks& links, const WebIdentity& identity) {
  if (identity.role.empty()) {
    return NotUsable(StrCat("the web identity ", identity.token_file, " cannot be used"),
                     "no role is named", "set AWS_ROLE_ARN, or role_arn of the profile");
  }
  const auto token = common::ReadFile(identity.token_file, kCredentialFileBytesMax);
  if (!token.ok()) {
    return NotUsable("the web identity cannot be used", common::MessageOf(token.status()),
                     "name its file with AWS_WEB_IDENTITY_TOKEN_FILE");
  }
  std::string service = links.environment("AWS_ENDPOINT_URL_STS");
  if (service.empty()) {
    service = StrCat("https://sts.", links.region, ".amazonaws.com",
                     links.region.starts_with("cn-") ? ".cn" : "");
  }
  const auto url = common::ParseHttpUrl(service);
  if (!url.ok() || (!url->is_https && !common::IsLoopbackHost(url->host))) {
    return NotUsable(StrCat("the token service ", service, " cannot be used"),
                     "it is not an encrypted address", "set AWS_ENDPOINT_URL_STS to https://HOST");
  }
  const std::string form =
      CanonicalQuery({{"Action", "AssumeRoleWithWebIdentity"},
                      {"Version", "2011-06-15"},
                      {"RoleArn", identity.role},
                      {"RoleSessionName", identity.session.empty() ? "muster" : identity.session},
                      {"WebIdentityToken", std::string(absl::StripAsciiWhitespace(*token))}});
  ASSIGN_OR_RETURN(const std::string answer,
                   Ask(links, {.method = "POST",
                               .url = service,
                               .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                               .body = std::string_view(form)}));
  const auto credentials = ReadAssumedRole(answer);
  if (credentials.ok()) return credentials;
  return absl::UnavailableError(StrCat(service, ": ", common::MessageOf(credentials.status())));
}

Found OfWebIdentity(const ChainLinks& links) {
  const WebIdentity identity{.token_file = links.environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                             .role = links.environment("AWS_ROLE_ARN"),
                             .session = links.environment("AWS_ROLE_SESSION_NAME")};
  if (identity.token_file.empty()) return std::nullopt;
  return AssumeRole(links, identity);
}

absl::StatusOr<ProfileKeys> KeysOfProfile(const Environment& environment,
                                          const std::string& profile) {
  ProfileKeys keys;
  // What the first one has, the second one does not change.
  for (const auto& [variable, usual] :
       {std::pair{"AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"},
        std::pair{"AWS_CONFIG_FILE", "/.aws/config"}}) {
    std::string path = environment(variable);
    if (path.empty()) path = StrCat(environment("HOME"), usual);
    const auto file = common::ReadFile(path, kCredentialFileBytesMax);
    if (absl::IsNotFound(file.status())) continue;
    if (!file.ok()) {
      return NotUsable(
          "the file with credentials cannot be used", common::MessageOf(file.status()),
          StrCat("let the coordinator's user read it, or name another one with ", variable));
    }
    keys.merge(ReadProfile(*file, profile));
  }
  return keys;
}

Found OfProfile(const ChainLinks& links) {
  const std::string named = links.environment("AWS_PROFILE");
  const std::string profile = named.empty() ? "default" : named;
  ASSIGN_OR_RETURN(const ProfileKeys keys, KeysOfProfile(links.environment, profile));
  const auto value = [&keys](const char* name) {
    const auto found = keys.find(name);
    return found == keys.end() ? std::string() : found->second;
  };
  Credentials credentials{.access_key = value("aws_access_key_id"),
                          .secret_key = value("aws_secret_access_key"),
                          .session_token = value("aws_session_token")};
  if (credentials.AreUsable()) return credentials;
  const WebIdentity identity{.token_file = value("web_identity_token_file"),
                             .role = value("role_arn"),
                             .session = value("role_session_name")};
  if (!identity.token_file.empty()) return AssumeRole(links, identity);
  for (const char* other :
       {"credential_process", "source_profile", "sso_session", "sso_start_url"}) {
    if (!keys.contains(other)) continue;
    return NotUsable(
        StrCat("the profile ", profile, " cannot be used"),
        StrCat("its credentials come by ", other, ", which the coordinator does not do"),
        "give it aws_access_key_id and aws_secret_access_key, or a web identity");
  }
  if (named.empty()) return std::nullopt;
  return NotUsable(StrCat("the profile ", profile, " of AWS_PROFILE cannot be used"),
                   "~/.aws/credentials and ~/.aws/config have no keys for it",
                   "correct its name, or write aws_access_key_id and aws_secret_access_key there");
}

absl::StatusOr<Credentials> ReadAnswerOf(std::string_view service, const std::string& json) {
  const auto credentials = ReadCredentialAnswer(json);
  if (credentials.ok()) return credentials;
  return absl::UnavailableError(StrCat(service, ": ", common::MessageOf(credentials.status())));
}

Found OfContainer(const ChainLinks& links) {
  std::string service = links.environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = links.environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) service = StrCat("http://", kContainerHost, relative);
  if (service.empty()) return std::nullopt;
  const auto url = common::ParseHttpUrl(service);
  if (!url.ok() || (!url->is_https && !common::IsLoopbackHost(url->host) &&
                    url->host != kContainerHost && url->host != kPodHost)) {
    return NotUsable(StrCat("the container's credentials at ", service, " cannot be used"),
                     "it is neither https nor an address of this machine",
                     "correct AWS_CONTAINER_CREDENTIALS_FULL_URI");
  }
  std::string token = links.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string token_file = links.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!token_file.empty()) {
    ASSIGN_OR_RETURN(token, common::ReadFile(token_file, kCredentialFileBytesMax));
    absl::StripAsciiWhitespace(&token);
  }
  Fields headers;
  if (!token.empty()) headers.emplace_back("Authorization", token);
  ASSIGN_OR_RETURN(const std::string json, Ask(links, {.url = service, .headers = headers}));
  return ReadAnswerOf(service, json);
}

Found OfMachine(const ChainLinks& links) {
  if (absl::AsciiStrToLower(links.environment("AWS_EC2_METADATA_DISABLED")) == "true")
    return std::nullopt;
  std::string service = links.environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (service.empty()) service = kMetadataService;
  const auto token = Ask(links, {.method = "PUT",
                                 .url = StrCat(service, "/latest/api/token"),
                                 .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}});
  if (absl::IsUnavailable(token.status())) return std::nullopt;  // this machine has no such service
  RETURN_IF_ERROR(token.status());
  const Fields headers = {{"X-aws-ec2-metadata-token", *token}};
  const std::string roles = StrCat(service, "/latest/meta-data/iam/security-credentials/");
  ASSIGN_OR_RETURN(const std::string names, Ask(links, {.url = roles, .headers = headers}));
  const std::string role = names.substr(0, names.find('\n'));
  ASSIGN_OR_RETURN(const std::string json, Ask(links, {.url = roles + role, .headers = headers}));
  return ReadAnswerOf(service, json);
}

}  // namespace

std::string SystemEnvironment(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<Credentials> FindCredentials(const ChainLinks& links) {
  for (const auto place : {OfEnvironment, OfWebIdentity, OfProfile, OfContainer, OfMachine}) {
    ASSIGN_OR_RETURN(const std::optional<Credentials> found, place(links));
    if (found) return *found;
  }
  return NotUsable(
      "there are no credentials for the object store",
      "neither the environment (AWS_ACCESS_KEY_ID), nor ~/.aws/credentials, nor a role of this "
      "container or machine has any",
      "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the coordinator, or name a "
      "profile with AWS_PROFILE");
}

}  // namespace muster::coordinator::s3
