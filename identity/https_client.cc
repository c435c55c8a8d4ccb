#include "identity/https_client.h"

#include <openssl/x509.h>

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/http/client.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "identity/certificate.h"

namespace muster::identity {
namespace {

using common::StrCat;
using std::chrono::milliseconds;

absl::Status Unreachable(const std::string& address, std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1301",
       .what = StrCat("the coordinator at ", address, " does not answer"),
       .why = std::move(why),
       .fix = "check the address (HTTPS listens on another port than gRPC) and that "
              "muster-coordinator runs there"});
}

absl::Status NotThatCluster(const std::string& address, std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = "JC1354",
       .what = StrCat(address, " is not a coordinator of this cluster; nothing was sent to it"),
       .why = std::move(why)});
}

// "[::1]:7000": ::1 and 7000. The resolver checks the host's syntax.
absl::StatusOr<common::HttpUrl> UrlAt(const std::string& address, const std::string& target) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  common::HttpUrl url{.is_https = true, .host = address.substr(0, colon), .target = target};
  if (url.host.starts_with('[') && url.host.ends_with(']'))
    url.host = url.host.substr(1, url.host.size() - 2);
  uint32_t number = 0;
  if (!absl::SimpleAtoi(port, &number) || number > UINT16_MAX)
    return Unreachable(address, "its port is not a number up to 65535");
  url.port = static_cast<uint16_t>(number);
  return url;
}

// The authority alone does not suffice: it also issued the workers' certificates.
absl::Status CheckIsCoordinator(const std::string& address, x509_st* shown) {
  X509_up_ref(shown);
  const absl::StatusOr<CertificateFacts> facts = FactsOf(CertificateHandle(shown, X509_free));
  if (facts.ok() && facts->subject.kind == Kind::kCoordinator) return absl::OkStatus();
  return NotThatCluster(address, facts.ok()
                                     ? StrCat("its certificate is that of ", PathOf(facts->subject))
                                     : "its certificate names no coordinator");
}

absl::StatusOr<HttpsAnswer> Exchange(const HttpsRequest& request) {
  ASSIGN_OR_RETURN(common::HttpUrl url, UrlAt(request.address, request.target));
  common::PinnedServer server{.name = std::string(kCoordinatorDnsName),
                              .authority_pem = request.authority_pem};
  if (!request.authority_pem.empty()) {
    server.check = [&](x509_st* shown) { return CheckIsCoordinator(request.address, shown); };
  }
  absl::StatusOr<HttpsAnswer> answer = common::CallHttp({.url = std::move(url),
                                                         .body = request.body,
                                                         .answer_max = kHttpsAnswerMax,
                                                         .pinned = std::move(server),
                                                         .within = request.within});
  // An error from the check of the certificate already has a code.
  if (answer.ok() || !common::CodeOf(answer.status()).empty()) return answer;
  std::string why = common::MessageOf(answer.status());
  if (absl::IsUnauthenticated(answer.status()))
    return NotThatCluster(request.address, StrCat("its certificate is refused: ", why));
  return Unreachable(request.address, std::move(why));
}

}  // namespace

absl::StatusOr<HttpsAnswer> AskHttps(const HttpsRequest& request) {
  if (request.authority_pem.empty()) {
    return absl::InvalidArgumentError("a request without an authority proves nothing");
  }
  return Exchange(request);
}

absl::StatusOr<ShownAuthority> AskForAuthority(const std::string& address, milliseconds within) {
  ASSIGN_OR_RETURN(HttpsAnswer answer, Exchange({.address = address,
                                                 .target = "/enroll/ca",
                                                 .body = "",
                                                 .authority_pem = "",
                                                 .within = within}));
  if (answer.status != 200) {
    return Unreachable(address,
                       StrCat("it has no cluster to join (HTTP status ", answer.status, ")"));
  }
  const absl::StatusOr<CertificateHandle> shown = ReadCertificate(answer.body);
  if (!shown.ok())
    return NotThatCluster(address, "what it shows as its authority is not a certificate");
  // Exactly the certificate that was fingerprinted: the answer may hold more, which nothing vouches for.
  std::string pem = PemOf(*shown);
  ASSIGN_OR_RETURN(std::string fingerprint, Fingerprint(pem));
  return ShownAuthority{.pem = std::move(pem), .fingerprint = std::move(fingerprint)};
}

absl::StatusOr<std::string> FetchAuthority(const AuthorityQuestion& question) {
  ASSIGN_OR_RETURN(ShownAuthority shown, AskForAuthority(question.address, question.within));
  if (shown.fingerprint == question.fingerprint) return std::move(shown.pem);
  return NotThatCluster(question.address,
                        StrCat("the fingerprint of its authority is ", shown.fingerprint, ", not ",
                               question.fingerprint));
}

}  // namespace muster::identity
