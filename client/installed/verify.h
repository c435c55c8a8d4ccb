// jobctl version --verify.
#pragma once

#include "absl/status/statusor.h"

namespace muster::client {

class Arguments;
class Session;

// Compares what packages have installed beside this program with their lists, and prints what
// differs. kExitOk: no file differs, and every signature that exists, or that --key requires, is
// valid. NOT_FOUND (JC1014): no package installed this program.
absl::StatusOr<int> VerifyInstalled(Session& session, const Arguments& arguments);

}  // namespace muster::client
