#include <nlohmann/json.hpp>

#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/s3/credential_chain.h"
#include "coordinator/s3/times.h"

namespace muster::coordinator::s3 {
namespace {

constexpr size_t kCredentialAnswerBytesMax = 64 * 1024;
constexpr size_t kCredentialAnswerDepthMax = 4;

std::string MemberOf(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

absl::StatusOr<Credentials> ReadCredentialAnswer(std::string_view json) {
  if (json.size() > kCredentialAnswerBytesMax ||
      common::NestsDeeper(json, kCredentialAnswerDepthMax))
    return absl::InvalidArgumentError("the answer is too large");
  const nlohmann::json answer = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return absl::InvalidArgumentError("the answer is not a JSON object");
  const std::string code = MemberOf(answer, "Code");
  if (!code.empty() && code != "Success") {
    return absl::InvalidArgumentError(
        common::StrCat("the answer is ", common::PrintableStart(code, 100)));
  }
  const auto expires = ReadXmlTime(MemberOf(answer, "Expiration"));
  Credentials credentials{.access_key = MemberOf(answer, "AccessKeyId"),
                          .secret_key = MemberOf(answer, "SecretAccessKey"),
                          .session_token = MemberOf(answer, "Token"),
                          .expires_ms = expires.value_or(0)};
  if (credentials.AreUsable()) return credentials;
  return absl::InvalidArgumentError("the answer has no AccessKeyId and SecretAccessKey");
}

}  // namespace muster::coordinator::s3
