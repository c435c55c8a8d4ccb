// jobctl cluster up and down in an allocation of Slurm. The cluster's state is in a directory that all
// nodes share, so the next allocation of the same name continues its jobs. Main thread; blocks.
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
  std::string size;                // "4", "2-4"; empty: uses the script that was written before
  std::vector<std::string> flags;  // of sbatch
  int64_t margin_s = 0;
  bool resubmits = false;
};
// Submits an allocation unless one waits or runs, waits until it has started and all its nodes have
// registered, and selects it. JC1811: a program of Slurm failed; JC1812: the allocation ended.
absl::Status BringUpOnSlurm(Session& session, SlurmUp up);
// Cancels the allocation and removes the directory with all records. JC1808: the allocation does not end.
absl::Status TakeDownOnSlurm(Session& session, const ClusterRecord& record);

}  // namespace muster::client::cluster
