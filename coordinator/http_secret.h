// What HTTP's sessions are signed with and what scrapers present, as several coordinators share it (Note::kHttpSecret,
// Note::kMetricsSecret): sealed, where there is a key for that, because etcd must not have secrets.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/identity/cluster.h"

namespace muster::coordinator {

inline constexpr std::string_view kHttpSecretPurpose = "http";

// `cluster`: null if there are no identities.
inline std::string SealHttpSecret(const Cluster* cluster, const std::string& secret) {
  return cluster == nullptr ? secret : cluster->Seal(kHttpSecretPurpose, secret);
}

inline absl::StatusOr<std::string> OpenHttpSecret(const Cluster* cluster, const std::string& note) {
  if (cluster == nullptr) return note;
  return cluster->Unseal(kHttpSecretPurpose, note);
}

}  // namespace muster::coordinator
