#include "identity/credential_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "identity/certificate.h"

namespace muster::identity {
namespace {

using common::StrCat;

constexpr size_t kFileMax = 64 * 1024;
constexpr std::string_view kKeyBegin = "-----BEGIN PRIVATE KEY-----\n";
constexpr std::string_view kKeyEnd = "-----END PRIVATE KEY-----\n";
constexpr std::string_view kCertificateBegin = "-----BEGIN CERTIFICATE-----\n";
constexpr std::string_view kCertificateEnd = "-----END CERTIFICATE-----\n";

using Field = std::pair<std::string_view, std::string Credentials::*>;
constexpr std::array kFields = {
    Field{"cluster", &Credentials::cluster}, Field{"name", &Credentials::name},
    Field{"endpoint", &Credentials::endpoint}, Field{"http", &Credentials::http}};

// The next block from `begin` to `end`, inclusive; removes it and what precedes it from `text`.
std::string TakeBlock(std::string_view& text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return {};
  const size_t to = text.find(end, from);
  if (to == std::string_view::npos) return {};
  std::string block(text.substr(from, to + end.size() - from));
  text.remove_prefix(to + end.size());
  return block;
}

absl::Status NotUsable(absl::StatusCode code, const std::string& path, std::string why) {
  return common::MakeProblem(code, {.code = "JC1323",
                                    .what = StrCat("the credentials in ", path, " cannot be used"),
                                    .why = std::move(why)});
}

}  // namespace

absl::Status SaveCredentials(const std::string& path, const Credentials& credentials) {
  RETURN_IF_ERROR(common::MakeDirectories(path.substr(0, path.rfind('/')), 0700));
  std::string text;
  for (const auto& [name, member] : kFields) {
    common::StrAppend(&text, name, ": ", credentials.*member, "\n");
  }
  common::StrAppend(&text, credentials.key_pem, credentials.certificate_pem,
                    credentials.authority_pem);
  return common::WriteFileDurably(path, text, 0600);
}

absl::StatusOr<Credentials> ParseCredentials(std::string_view text) {
  Credentials credentials;
  std::string_view head = text.substr(0, text.find("-----BEGIN"));
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find('\n'));
    head.remove_prefix(std::min(head.size(), line.size() + 1));
    for (const auto& [name, member] : kFields) {
      if (line.starts_with(name) && line.substr(name.size()).starts_with(": ")) {
        credentials.*member = line.substr(name.size() + 2);
      }
    }
  }
  std::string_view rest = text;
  credentials.key_pem = TakeBlock(rest, kKeyBegin, kKeyEnd);
  credentials.certificate_pem = TakeBlock(rest, kCertificateBegin, kCertificateEnd);
  credentials.authority_pem = TakeBlock(rest, kCertificateBegin, kCertificateEnd);
  if (credentials.key_pem.empty()) return absl::InvalidArgumentError("it has no private key");
  if (credentials.certificate_pem.empty())
    return absl::InvalidArgumentError("it has no certificate");
  if (credentials.authority_pem.empty()) {
    return absl::InvalidArgumentError("it has no certificate of the cluster's authority");
  }
  ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(credentials.key_pem));
  ASSIGN_OR_RETURN(const CertificateFacts facts, FactsOfPem(credentials.certificate_pem));
  if (facts.key_sha256 != PublicKeyHash(key.handle().get())) {
    return absl::InvalidArgumentError("its certificate is not that of its key");
  }
  RETURN_IF_ERROR(CheckIssuer(credentials.certificate_pem, credentials.authority_pem));
  return credentials;
}

absl::StatusOr<Credentials> LoadCredentials(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if ((info.st_mode & 077) != 0) {
      return NotUsable(absl::StatusCode::kPermissionDenied, path, "others may read them");
    }
    if (info.st_uid != geteuid() && geteuid() != 0) {
      return NotUsable(absl::StatusCode::kPermissionDenied, path, "they are another user's");
    }
  }
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(path, kFileMax));
  absl::StatusOr<Credentials> credentials = ParseCredentials(text);
  if (!credentials.ok()) {
    return NotUsable(absl::StatusCode::kDataLoss, path,
                     std::string(credentials.status().message()));
  }
  return credentials;
}

}  // namespace muster::identity
