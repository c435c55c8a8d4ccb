#include "coordinator/oidc/client.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator::oidc {
namespace {

using common::StrCat;

constexpr size_t kClientTextMax = 512;
constexpr size_t kSecretMax = 4 * 1024;

bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

absl::Status NoSecret(absl::StatusCode code, const std::string& path, std::string why,
                      std::string fix) {
  return common::MakeProblem(code,
                             {.code = "JC1368",
                              .what = StrCat("--oidc-client-secret-file ", path, " cannot be used"),
                              .why = std::move(why),
                              .fix = std::move(fix)});
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  ASSIGN_OR_RETURN(const common::UniqueFd file, common::OpenRegular(path, O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return common::ErrnoStatus(StrCat("cannot look at ", path));
  if ((info.st_mode & 077) != 0) {
    return NoSecret(absl::StatusCode::kPermissionDenied, path, "others may read it",
                    StrCat("chmod 600 ", path));
  }
  ASSIGN_OR_RETURN(std::string secret, common::ReadAt(file.get(), 0, kSecretMax + 1, path));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (!secret.empty() && secret.size() <= kSecretMax && IsVisible(secret)) return secret;
  return NoSecret(absl::StatusCode::kDataLoss, path,
                  StrCat("it does not hold one line of 1 to ", kSecretMax, " visible characters"),
                  "write the secret that the provider shows for this client, and nothing else");
}

}  // namespace

absl::StatusOr<common::HttpUrl> ReadEndpoint(std::string_view text) {
  absl::StatusOr<common::HttpUrl> url = common::ParseHttpUrl(text);
  if (!url.ok())
    return absl::InvalidArgumentError(StrCat("\"", text, "\" ", url.status().message()));
  if (url->is_https || common::IsLoopbackHost(url->host)) return url;
  return absl::InvalidArgumentError(
      StrCat("\"", text, "\" is not encrypted: only https, or http to a loopback address"));
}

absl::Status CheckAddress(const common::HttpUrl& endpoint, const sockaddr* address) {
  if (endpoint.is_https || common::IsLoopback(*address)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      StrCat(endpoint.host, " is not this machine, and http is not encrypted"));
}

absl::Status CheckSettings(const Settings& settings) {
  const auto wrong = [](std::string text) { return absl::InvalidArgumentError(std::move(text)); };
  if (settings.issuer.empty()) {
    const std::string flag = !settings.client_id.empty()     ? "--oidc-client-id"
                             : !settings.secret_file.empty() ? "--oidc-client-secret-file"
                             : settings.scope != "openid"    ? "--oidc-scope"
                                                             : "";
    if (flag.empty()) return absl::OkStatus();
    return wrong(StrCat(flag, " needs --oidc-issuer URL: whose client it is"));
  }
  const absl::StatusOr<common::HttpUrl> issuer = ReadEndpoint(settings.issuer);
  if (!issuer.ok()) return wrong(StrCat("--oidc-issuer ", issuer.status().message()));
  if (settings.issuer.size() > kClientTextMax || issuer->target.find('?') != std::string::npos)
    return wrong(
        StrCat("--oidc-issuer: an issuer has no query and at most ", kClientTextMax, " bytes"));
  if (settings.client_id.empty())
    return wrong("--oidc-issuer needs --oidc-client-id ID, which the provider gave this cluster");
  if (settings.client_id.size() > kClientTextMax || !IsVisible(settings.client_id)) {
    return wrong(StrCat("--oidc-client-id: 1 to ", kClientTextMax,
                        " visible ASCII characters without blanks"));
  }
  const std::vector<std::string> scopes = absl::StrSplit(settings.scope, ' ');
  const bool are_words = std::all_of(scopes.begin(), scopes.end(), [](const std::string& scope) {
    return !scope.empty() && IsVisible(scope);
  });
  if (settings.scope.size() > kClientTextMax || !are_words ||
      std::find(scopes.begin(), scopes.end(), "openid") == scopes.end()) {
    return wrong(
        "--oidc-scope: words with one blank between them, one of which is openid; without it the "
        "provider does not tell who signs in");
  }
  return absl::OkStatus();
}

absl::StatusOr<Client> ReadClient(const Settings& settings) {
  Client client{.issuer = settings.issuer,
                .client_id = settings.client_id,
                .secret = "",
                .scope = settings.scope};
  if (settings.secret_file.empty()) return client;
  absl::StatusOr<std::string> secret = ReadSecretFile(settings.secret_file);
  if (!secret.ok() && common::CodeOf(secret.status()).empty()) {
    return NoSecret(secret.status().code(), settings.secret_file,
                    common::MessageOf(secret.status()),
                    "name a file that the coordinator may read");
  }
  RETURN_IF_ERROR(secret.status());
  client.secret = *std::move(secret);
  return client;
}

}  // namespace muster::coordinator::oidc
