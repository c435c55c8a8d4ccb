#include "coordinator/identity/issue_token.h"

#include <utility>

#include "common/base/status.h"
#include "identity/join_token.h"

namespace muster::coordinator {

absl::StatusOr<IssuedToken> IssueToken(Directory& directory, const Cluster& cluster,
                                       const v1::CreateTokenRequest& request,
                                       const std::string& by) {
  const std::string secret = identity::MakeTokenSecret();
  ASSIGN_OR_RETURN(
      v1::Token token,
      directory.CreateToken(
          request, {.id = identity::MakeTokenId(), .secret_sha256 = identity::HashOfSecret(secret)},
          by));
  token.clear_secret_sha256();
  std::string text = identity::FormatToken(
      {.authority = cluster.authority().Fingerprint(), .id = token.id(), .secret = secret});
  return IssuedToken{.token = std::move(token), .text = std::move(text)};
}

}  // namespace muster::coordinator
