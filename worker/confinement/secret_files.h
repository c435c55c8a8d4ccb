// The secrets of an attempt's job, as files in memory (tmpfs) that only the ranks' account can read:
// one directory per attempt below /dev/shm/muster-RANDOM. The random name is kept in the worker's
// state directory: everyone may create files in /dev/shm, and a user who knew the name could take it
// first. The values are nowhere else, not even in launch.pb, so for an adopted attempt the files are all
// there is. Any thread; tmpfs does not block.
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

// Whether this path, which contains no link, holds secrets of a worker of this machine.
bool HoldsSecrets(std::string_view path);

// MUSTER_SECRETS_DIR.
std::string SecretsDir(const Paths& paths, const AttemptKey& key);

// FAILED_PRECONDITION if a secret that the job asks for did not come with the launch, or we have no tmpfs
// directory to write it to. Does nothing for a job without secrets.
absl::Status WriteSecrets(const Paths& paths, const AttemptKey& key,
                          const v1::LaunchAttempt& launch, const common::LaunchAccount& account);
// Call when the attempt has ended.
void RemoveSecrets(const Paths& paths, const AttemptKey& key);
// When the worker starts: removes all but those of attempts that still run.
void RemoveSecretsOfOthers(const Paths& paths, const std::set<AttemptKey>& running);

// The values that Muster's texts about the attempt must not contain.
std::vector<std::string> SecretValues(const Paths& paths, const AttemptKey& key);
// `text` with "(hidden)" in place of each of them. Values shorter than 4 bytes stay: replacing them would
// hide everything.
std::string HideValues(std::string text, const std::vector<std::string>& values);

}  // namespace muster::worker
