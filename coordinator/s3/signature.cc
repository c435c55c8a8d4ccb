#include "coordinator/s3/signature.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/hash/hex.h"
#include "common/hash/hmac.h"
#include "common/hash/sha256.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "coordinator/s3/times.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string Hmac(std::string_view key, std::string_view text) {
  return *common::FromHex(common::HmacSha256Hex(key, text));
}

// Without blanks around it, and one for several within.
std::string Trimmed(std::string_view value) {
  std::string trimmed(value);
  absl::RemoveExtraAsciiWhitespace(&trimmed);
  return trimmed;
}

// By lower-case names; values of one name in their order, with commas between.
std::map<std::string, std::string> SortedHeaders(const Fields& headers) {
  std::map<std::string, std::string> sorted;
  for (const auto& [name, value] : headers) {
    std::string& all = sorted[absl::AsciiStrToLower(name)];
    all += StrCat(all.empty() ? "" : ",", Trimmed(value));
  }
  return sorted;
}

std::string SignedNames(const Fields& headers) {
  return absl::StrJoin(SortedHeaders(headers), ";",
                       [](std::string* text, const auto& header) { *text += header.first; });
}

std::string Scope(const Signing& signing) {
  return StrCat(BasicTime(signing.wall_ms).substr(0, 8), "/", signing.region, "/", signing.service,
                "/aws4_request");
}

std::string Signature(const Signing& signing, const SignedRequest& request) {
  const std::string time = BasicTime(signing.wall_ms);
  std::string key = Hmac(StrCat("AWS4", signing.credentials.secret_key), time.substr(0, 8));
  for (const std::string_view part :
       {std::string_view(signing.region), std::string_view(signing.service),
        std::string_view("aws4_request")}) {
    key = Hmac(key, part);
  }
  return common::HmacSha256Hex(key, StrCat(kAlgorithm, "\n", time, "\n", Scope(signing), "\n",
                                           common::Sha256Hex(CanonicalRequest(request))));
}

}  // namespace

std::string CanonicalQuery(const Fields& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(common::PercentEncode(name), common::PercentEncode(value));
  std::sort(encoded.begin(), encoded.end());
  return absl::StrJoin(encoded, "&", absl::PairFormatter("="));
}

std::string CanonicalRequest(const SignedRequest& request) {
  std::string text =
      StrCat(request.method, "\n", common::PercentEncode(request.path, /*keeps_slash=*/true), "\n",
             CanonicalQuery(request.query), "\n");
  for (const auto& [name, value] : SortedHeaders(request.headers))
    common::StrAppend(&text, name, ":", value, "\n");
  common::StrAppend(&text, "\n", SignedNames(request.headers), "\n", request.payload);
  return text;
}

std::string Authorization(const Signing& signing, const SignedRequest& request) {
  return StrCat(kAlgorithm, " Credential=", signing.credentials.access_key, "/", Scope(signing),
                ", SignedHeaders=", SignedNames(request.headers),
                ", Signature=", Signature(signing, request));
}

std::string PresignedQuery(const Signing& signing, SignedRequest request,
                           std::chrono::seconds life) {
  request.payload = kUnsignedPayload;
  request.query.emplace_back("X-Amz-Algorithm", kAlgorithm);
  request.query.emplace_back("X-Amz-Credential",
                             StrCat(signing.credentials.access_key, "/", Scope(signing)));
  request.query.emplace_back("X-Amz-Date", BasicTime(signing.wall_ms));
  request.query.emplace_back("X-Amz-Expires", StrCat(life.count()));
  request.query.emplace_back("X-Amz-SignedHeaders", SignedNames(request.headers));
  if (!signing.credentials.session_token.empty())
    request.query.emplace_back("X-Amz-Security-Token", signing.credentials.session_token);
  return StrCat(CanonicalQuery(request.query), "&X-Amz-Signature=", Signature(signing, request));
}

}  // namespace muster::coordinator::s3
