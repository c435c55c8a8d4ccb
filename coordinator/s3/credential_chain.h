// Where credentials are looked for, in the order of AWS's tools; the first place that has something decides:
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: the token is exchanged at the token service, as in Kubernetes
//   AWS_PROFILE, or "default", in ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE):
//     keys, or a web identity. Profiles that run programs or need a sign-in are refused
//   AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI: of a container's or pod's role
//   the machine's role, of the instance metadata service, version 2 (unless AWS_EC2_METADATA_DISABLED=true)
// Blocks; any thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/transfers.h"
#include "coordinator/s3/credentials.h"

namespace muster::coordinator::s3 {

// A variable's value; empty: it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string SystemEnvironment(const char* name);

struct ChainLinks {
  Environment environment = SystemEnvironment;
  std::string region;  // whose token service is asked
  common::Transfers* transfers = nullptr;
  const std::atomic<bool>* stop = nullptr;
};

// PERMISSION_DENIED: there are none, or what is there cannot be used; where it was looked for, and what to do.
// UNAVAILABLE: the service that has them does not answer.
absl::StatusOr<Credentials> FindCredentials(const ChainLinks& links);

// The answer of a container's or the metadata service, in JSON. INVALID_ARGUMENT. Pure.
absl::StatusOr<Credentials> ReadCredentialAnswer(std::string_view json);

}  // namespace muster::coordinator::s3
