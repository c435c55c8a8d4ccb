#include "coordinator/identity/directory_records.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"

namespace muster::coordinator {

absl::StatusOr<std::optional<v1::Token>> DirectoryRecords::FindToken(const std::string& id) {
  ASSIGN_OR_RETURN(std::vector<v1::Token> tokens, directory_.Tokens());
  const auto found = std::find_if(tokens.begin(), tokens.end(),
                                  [&](const v1::Token& token) { return token.id() == id; });
  if (found == tokens.end()) return std::nullopt;
  return std::move(*found);
}

absl::StatusOr<std::optional<v1::Token>> DirectoryRecords::UseToken(const TokenUse& use) {
  absl::StatusOr<v1::Token> used = directory_.UseToken(
      {.id = use.id, .secret_sha256 = use.secret_sha256, .kind = use.kind, .subject = use.subject});
  if (used.ok()) return *std::move(used);
  if (absl::IsUnauthenticated(used.status())) return std::nullopt;
  return used.status();
}

std::optional<v1::User> DirectoryRecords::FindUser(const std::string& name) {
  return directory_.FindUser(name);
}

std::optional<v1::User> DirectoryRecords::FindUserByOidc(const std::string& subject) {
  return directory_.FindUserByOidc(subject);
}

absl::StatusOr<size_t> DirectoryRecords::CountValid(const std::string& subject, int64_t now_ms) {
  size_t valid = 0;
  RETURN_IF_ERROR(directory_.ForEachCredential(subject, [&](const v1::Credential& each) {
    if (each.revoked_ms() == 0 && each.expires_ms() > now_ms) ++valid;
  }));
  return valid;
}

absl::StatusOr<std::optional<v1::Credential>> DirectoryRecords::FindCredential(
    const std::string& serial) {
  return directory_.FindCredential(serial);
}

bool DirectoryRecords::IsRevoked(const std::string& serial) { return directory_.IsRevoked(serial); }

absl::Status DirectoryRecords::Record(const v1::Credential& credential) {
  return directory_.AddCredential(credential);
}

absl::Status DirectoryRecords::Revoke(const Replacement& replacement) {
  v1::RevokeCredentialsRequest request;
  request.set_subject(replacement.subject);
  request.set_reason(replacement.reason);
  ASSIGN_OR_RETURN(const std::vector<v1::Credential> revoked,
                   directory_.Revoke(request, replacement.by));
  std::vector<std::string> serials;
  for (const v1::Credential& each : revoked) serials.push_back(each.serial());
  if (!serials.empty()) cut_(serials);
  return absl::OkStatus();
}

}  // namespace muster::coordinator
