// Who a certificate speaks for: spiffe://CLUSTER/worker/node1, …/user/alice, …/coordinator/head.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::identity {

enum class Kind { kWorker, kUser, kCoordinator };

// "worker", "user", "coordinator".
std::string_view KindName(Kind kind);

struct Subject {
  Kind kind = Kind::kUser;
  std::string name;
  bool operator==(const Subject&) const = default;
};

// "worker/node1": the form in which credentials are listed and revoked.
std::string PathOf(const Subject& subject);
absl::StatusOr<Subject> SubjectOfPath(std::string_view path);
// "worker:node1": the form in which callers and owners are named.
std::string PrincipalOf(const Subject& subject);
std::string UriOf(std::string_view cluster, const Subject& subject);
struct Named {
  std::string cluster;
  Subject subject;
};
absl::StatusOr<Named> ParseUri(std::string_view uri);

// 1 to 63 letters, digits and "-._@", beginning with a letter or digit: fits into a URI, a file name and
// a line without escaping.
bool IsName(std::string_view name);
// INVALID_ARGUMENT (JC1321), naming `what` ("the cluster").
absl::Status CheckName(std::string_view what, std::string_view name);

}  // namespace muster::identity
