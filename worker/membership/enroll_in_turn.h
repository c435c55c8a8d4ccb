// Enrolment where several coordinators replace each other: only the one that leads issues certificates, so they are
// asked in turn. Addresses are lists, as in worker/base/addresses.h, of HTTPS (`http`) and gRPC (`endpoint`).
// Blocks; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "identity/credential_files.h"
#include "identity/enroll.h"

namespace muster::worker {

// The first answer that is not "I do not lead" or silence. If there is none, the error that says most: that a
// coordinator has no time now (JC1356), that all stand by (JC1630), else the first one's.
using AskOne = std::function<absl::StatusOr<identity::Credentials>(const std::string& address)>;
absl::StatusOr<identity::Credentials> AskInTurn(const std::vector<std::string>& addresses,
                                                const AskOne& ask);

// The gRPC addresses of the coordinators at `addresses`, of which `answered` named `endpoint` as its own: if only the
// port is its choice, the others have the same.
std::vector<std::string> EndpointsOf(const std::vector<std::string>& addresses,
                                     const std::string& answered, const std::string& endpoint);

// identity::Enroll and identity::Renew at whichever leads. The credentials keep the whole list.
absl::StatusOr<identity::Credentials> EnrollInTurn(const identity::Enrolling& enrolling);
absl::StatusOr<identity::Credentials> RenewInTurn(const identity::Credentials& old, int64_t now_ms);

}  // namespace muster::worker
