// launch.pb: the order that an attempt was launched with, for a restarted worker. A LaunchAttempt
// message, followed by a checksum in a field that older readers ignore.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"

namespace muster::worker {

std::string EncodeLaunchRecord(const v1::LaunchAttempt& launch);
// NOT_FOUND: the attempt was never prepared here. DATA_LOSS: damaged, or its attempt is not `key`,
// the one in its directory name.
absl::StatusOr<v1::LaunchAttempt> ReadLaunchRecord(const std::string& path, const AttemptKey& key);

}  // namespace muster::worker
