#include "identity/enroll.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/hash/hex.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/answer_checks.h"
#include "identity/certificate.h"
#include "identity/https_client.h"
#include "identity/join_token.h"
#include "identity/keys.h"
#include "muster/v1/identity.pb.h"

namespace muster::identity {
namespace {

using common::StrCat;
using google::protobuf::Message;
using std::chrono::milliseconds;

constexpr uint32_t kIntervalMaxS = 300;
constexpr size_t kSecretsKeyBytes = 32;

std::string JsonOf(const Message& message) {
  std::string json;
  // Our own strings, which are UTF-8.
  return google::protobuf::util::MessageToJsonString(message, &json).ok() ? json : "{}";
}

bool Parse(const std::string& json, Message& message) {
  google::protobuf::util::JsonParseOptions newer;
  newer.ignore_unknown_fields = true;
  return google::protobuf::util::JsonStringToMessage(json, &message, newer).ok();
}

absl::StatusCode CodeOfHttp(int status) {
  switch (status) {
    case 400:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return absl::StatusCode::kAlreadyExists;
    case 429:
    case 503:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kUnknown;
  }
}

// {"error":{"code":…,"what":…,"why":…,"fix":…}} as the error that it describes.
absl::Status StatusOfAnswer(const std::string& address, const HttpsAnswer& answer) {
  google::protobuf::Struct json;
  common::Problem problem;
  if (google::protobuf::util::JsonStringToMessage(answer.body, &json).ok()) {
    const auto& error = json.fields().find("error");
    const auto text = [&](const char* name) -> std::string {
      if (error == json.fields().end()) return "";
      const auto& fields = error->second.struct_value().fields();
      const auto found = fields.find(name);
      return found == fields.end() ? "" : common::Printable(found->second.string_value());
    };
    problem = {.code = text("code"), .what = text("what"), .why = text("why"), .fix = text("fix")};
  }
  if (problem.code.empty()) {
    problem = {.code = "JC1301",
               .what = StrCat(address, " answered with HTTP status ", answer.status),
               .fix = "is it the coordinator's HTTPS address?"};
  }
  return common::MakeProblem(CodeOfHttp(answer.status), std::move(problem));
}

struct Question {
  std::string address;
  std::string target;
  std::string authority_pem;
  milliseconds within;
};

// What the coordinator issued for the key, checked as far as the client can.
absl::StatusOr<Credentials> Ask(const Question& question, const Message& request,
                                const PrivateKey& key) {
  ASSIGN_OR_RETURN(const HttpsAnswer answer, AskHttps({.address = question.address,
                                                       .target = question.target,
                                                       .body = JsonOf(request),
                                                       .authority_pem = question.authority_pem,
                                                       .within = question.within}));
  if (answer.status != 200) return StatusOfAnswer(question.address, answer);
  v1::Enrolled enrolled;
  if (!Parse(answer.body, enrolled)) return StatusOfAnswer(question.address, answer);
  ASSIGN_OR_RETURN(const CertificateHandle certificate,
                   ReadCertificate(enrolled.certificate_pem()));
  ASSIGN_OR_RETURN(const CertificateFacts facts, FactsOf(certificate));
  if (facts.key_sha256 != PublicKeyHash(key.handle().get())) {
    return absl::DataLossError(
        StrCat(question.address, " answered with a certificate of another key"));
  }
  std::string endpoint = enrolled.endpoint();
  if (endpoint.starts_with(':')) {
    endpoint.insert(0, question.address.substr(0, question.address.rfind(':')));
  }
  RETURN_IF_ERROR(CheckEndpoint(question.address, endpoint));
  return Credentials{.key_pem = key.ToPem(),
                     .certificate_pem = PemOf(certificate),
                     .authority_pem = question.authority_pem,
                     .cluster = facts.cluster,
                     .name = facts.subject.name,
                     .endpoint = std::move(endpoint),
                     .http = question.address};
}

}  // namespace

std::string RenewalText(int64_t at_ms, const std::string& csr_pem) {
  return StrCat("muster renew\n", at_ms, "\n", csr_pem);
}

absl::StatusOr<Credentials> Enroll(const Enrolling& enrolling) {
  const std::string text(absl::StripAsciiWhitespace(enrolling.token));
  ASSIGN_OR_RETURN(const TokenText token, ParseToken(text));
  ASSIGN_OR_RETURN(std::string authority_pem, FetchAuthority({.address = enrolling.address,
                                                              .fingerprint = token.authority,
                                                              .within = enrolling.within}));
  const PrivateKey key = PrivateKey::Generate();
  Question question{.address = enrolling.address,
                    .target = "/enroll/join",
                    .authority_pem = std::move(authority_pem),
                    .within = enrolling.within};
  if (enrolling.node.empty()) {
    v1::EnrollPersonRequest request;
    request.set_token(text);
    request.set_csr_pem(MakeRequest(key));
    question.target = "/enroll/sign-in";
    return Ask(question, request, key);
  }
  v1::JoinRequest request;
  request.set_token(text);
  request.set_node(enrolling.node);
  request.set_csr_pem(MakeRequest(key));
  return Ask(question, request, key);
}

absl::StatusOr<CoordinatorKeys> FetchCoordinatorKeys(const std::string& address,
                                                     const std::string& token,
                                                     const std::string& host) {
  const std::string text(absl::StripAsciiWhitespace(token));
  ASSIGN_OR_RETURN(const TokenText parsed, ParseToken(text));
  ASSIGN_OR_RETURN(std::string authority_pem,
                   FetchAuthority({.address = address, .fingerprint = parsed.authority}));
  v1::CoordinatorJoinRequest request;
  request.set_token(text);
  request.set_host(host);
  ASSIGN_OR_RETURN(const HttpsAnswer answer, AskHttps({.address = address,
                                                       .target = "/enroll/coordinator",
                                                       .body = JsonOf(request),
                                                       .authority_pem = authority_pem}));
  v1::CoordinatorKeys keys;
  if (answer.status != 200 || !Parse(answer.body, keys)) return StatusOfAnswer(address, answer);
  // The token names the authority; the rest is checked against it before it is used.
  ASSIGN_OR_RETURN(const Authority authority, Authority::Load(authority_pem, keys.ca_key_pem()));
  const std::optional<std::string> secrets_key = common::FromHex(keys.secrets_key());
  if (!secrets_key.has_value() || secrets_key->size() != kSecretsKeyBytes) {
    return absl::DataLossError(StrCat(address, " answered with a key that cannot be used"));
  }
  return CoordinatorKeys{.cluster = authority.cluster(),
                         .authority_pem = std::move(authority_pem),
                         .authority_key_pem = keys.ca_key_pem(),
                         .secrets_key = keys.secrets_key(),
                         .state = common::Printable(keys.state())};
}

absl::StatusOr<DeviceSignIn> BeginSignIn(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const HttpsAnswer answer, AskHttps({.address = endpoint.address,
                                                       .target = "/enroll/device",
                                                       .body = JsonOf(v1::DeviceRequest()),
                                                       .authority_pem = endpoint.authority_pem,
                                                       .within = endpoint.within}));
  v1::DeviceResponse device;
  if (answer.status != 200 || !Parse(answer.body, device))
    return StatusOfAnswer(endpoint.address, answer);
  RETURN_IF_ERROR(CheckPage(endpoint.address, device.verification_uri()));
  if (!device.verification_uri_complete().empty())
    RETURN_IF_ERROR(CheckPage(endpoint.address, device.verification_uri_complete()));
  RETURN_IF_ERROR(CheckUserCode(endpoint.address, device.user_code()));
  return DeviceSignIn{
      .handle = device.handle(),
      .user_code = device.user_code(),
      .verification_uri = device.verification_uri(),
      .verification_uri_complete = device.verification_uri_complete(),
      .interval = std::chrono::seconds(std::clamp(device.interval_s(), 1u, kIntervalMaxS)),
      .lives = std::chrono::seconds(device.expires_s())};
}

absl::StatusOr<Credentials> FinishSignIn(const Endpoint& endpoint, const std::string& handle,
                                         const PrivateKey& key) {
  v1::DevicePollRequest request;
  request.set_handle(handle);
  request.set_csr_pem(MakeRequest(key));
  return Ask({.address = endpoint.address,
              .target = "/enroll/device/poll",
              .authority_pem = endpoint.authority_pem,
              .within = endpoint.within},
             request, key);
}

absl::StatusOr<Credentials> Renew(const Credentials& old, int64_t now_ms, milliseconds within) {
  ASSIGN_OR_RETURN(const PrivateKey old_key, PrivateKey::FromPem(old.key_pem));
  const PrivateKey key = PrivateKey::Generate();
  v1::RenewRequest request;
  request.set_certificate_pem(old.certificate_pem);
  request.set_csr_pem(MakeRequest(key));
  request.set_at_ms(now_ms);
  request.set_signature(old_key.Sign(RenewalText(now_ms, request.csr_pem())));
  return Ask({.address = old.http,
              .target = "/enroll/renew",
              .authority_pem = old.authority_pem,
              .within = within},
             request, key);
}

}  // namespace muster::identity
