// The secrets of an attempt's job, as files in memory (tmpfs) that only the ranks' account reads:
// one directory per attempt below /dev/shm/muster-RANDOM. The random name is kept in the worker's
// state directory: everybody may create files in /dev/shm, and one who knew the name could take it
// first. The values are nowhere else: not in launch.pb, so an adopted attempt has its files and
// nothing more. Any thread; tmpfs does not block.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/kernel/shim_protocol.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/paths.h"

namespace muster::worker {

// Whether what lies at this path, which has no link in it, holds secrets of a worker of this machine.
bool HoldsSecrets(std::string_view path);

// MUSTER_SECRETS_DIR.
std::string SecretsDir(const Paths& paths, const AttemptKey& key);

// FAILED_PRECONDITION if a secret that the job asks for has not come with the launch, or there is no
// tmpfs of ours to write it to. A job without secrets: nothing to do.
absl::Status WriteSecrets(const Paths& paths, const AttemptKey& key,
                          const v1::LaunchAttempt& launch, const common::LaunchAccount& account);
// The attempt has ended.
void RemoveSecrets(const Paths& paths, const AttemptKey& key);
// At the worker's start: all but those of attempts that run on.
void RemoveSecretsOfOthers(const Paths& paths, const std::set<AttemptKey>& running);

// What must not be told of the attempt.
std::vector<std::string> SecretValues(const Paths& paths, const AttemptKey& key);
// `text` with "(hidden)" for each of them. Values shorter than 4 bytes stay: they would hide
// everything.
std::string HideValues(std::string text, const std::vector<std::string>& values);

}  // namespace muster::worker
