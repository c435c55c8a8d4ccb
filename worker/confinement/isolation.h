// What separates ranks from the rest of the node: the means that the kernel has, and the directories
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

// Tries the means that `sandbox` needs ("on", "none"; empty: on if ranks have another account). Leaves
// out and reports what the kernel refuses. Blocks for some milliseconds.
Isolation ProbeIsolation(const RunAs& run_as, std::string_view sandbox,
                         const std::string& shim_binary);

// Makes the state directory, and what is missing above it, passable for ranks of other accounts.
absl::Status MakeStateDirectory(const Paths& paths);

// Lets other accounts pass through the worker's directories to those that are theirs.
// FAILED_PRECONDITION names the directory above them that other accounts cannot pass.
absl::Status OpenTheWay(const RunAs& run_as, const Paths& paths);

// Makes an attempt's directories, and the record of its account, which owns what ranks write to.
absl::Status MakeAttemptDirs(const Paths& paths, const AttemptKey& key, const RankAccount& account,
                             bool has_own_mounts);

// The directories that an attempt's ranks can reach, whatever else is hidden from them.
std::vector<std::string> DirsOfAttempt(const Paths& paths, const AttemptKey& key, bool has_code);

// The sandbox with the paths of an attempt. `has_code`: `workdir` is in the attempt's directory.
common::LaunchSandbox SandboxOf(const common::LaunchSandbox& means, const Paths& paths,
                                const AttemptKey& key, const std::string& workdir,
                                bool has_code = false);

}  // namespace muster::worker
