// jobctl cluster up and down in an allocation of Slurm. Its state lies in a directory that all nodes
// share, so the next allocation of the same name continues its jobs. Main thread; blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cluster/record.h"

namespace muster::client {
class Session;
}

namespace muster::client::cluster {

struct SlurmUp {
  ClusterRecord record;
  std::string size;                // "4", "2-4"; empty: the script as it was written before
  std::vector<std::string> flags;  // of sbatch
  int64_t margin_s = 0;
  bool resubmits = false;
};
// Submits an allocation unless one waits or runs, waits until it has started and all its nodes are in, and
// selects it. JC1811: a program of Slurm's failed; JC1812: the allocation ended.
absl::Status BringUpOnSlurm(Session& session, SlurmUp up);
// Cancels the allocation and removes the directory with all records. JC1808: it does not end.
absl::Status TakeDownOnSlurm(Session& session, const ClusterRecord& record);

}  // namespace muster::client::cluster
