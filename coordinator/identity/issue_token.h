// Makes a token and its text, which is shown once: only a hash of its secret is kept. Blocks on the
// disk.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/identity/directory.h"

namespace muster::coordinator {

struct IssuedToken {
  v1::Token token;   // without the hash
  std::string text;  // what a person types
};
// `by`: the principal that asks.
absl::StatusOr<IssuedToken> IssueToken(Directory& directory, const Cluster& cluster,
                                       const v1::CreateTokenRequest& request,
                                       const std::string& by);

}  // namespace muster::coordinator
