// What stands between ranks and the rest of the node: what the kernel has of it, and the directories
// that ranks of another account own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/kernel/shim_protocol.h"
#include "muster/v1/event.pb.h"
#include "worker/base/paths.h"
#include "worker/confinement/rank_account.h"
#include "worker/confinement/run_as.h"

namespace muster::worker {

struct Isolation {
  bool no_new_privs = false;
  common::LaunchSandbox sandbox;  // which means; the paths are each attempt's
  v1::IsolationFacts facts;
};

// Tries what `sandbox` ("on", "none"; empty: on if ranks have another account) takes. What the
// kernel refuses is left out, and told. Blocks for some milliseconds.
Isolation ProbeIsolation(const RunAs& run_as, std::string_view sandbox,
                         const std::string& shim_binary);

// The state directory, and what is missing above it: open, as ranks of other accounts pass through.
absl::Status MakeStateDirectory(const Paths& paths);

// Lets other accounts pass through the worker's directories to those that are theirs.
// FAILED_PRECONDITION names the directory above them that other accounts cannot pass.
absl::Status OpenTheWay(const RunAs& run_as, const Paths& paths);

// An attempt's directories, and the record of its account; what ranks write to is the account's.
absl::Status MakeAttemptDirs(const Paths& paths, const AttemptKey& key, const RankAccount& account,
                             bool has_own_mounts);

// The directories that an attempt's ranks have, whatever else is hidden from them.
std::vector<std::string> DirsOfAttempt(const Paths& paths, const AttemptKey& key, bool has_code);

// With the paths of an attempt. `has_code`: `workdir` is in its directory.
common::LaunchSandbox SandboxOf(const common::LaunchSandbox& means, const Paths& paths,
                                const AttemptKey& key, const std::string& workdir,
                                bool has_code = false);

}  // namespace muster::worker
