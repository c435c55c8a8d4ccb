// What Slurm runs for a cluster: one script for each allocation, and one that it starts on each of its
// nodes. Written into the cluster's directory on the shared file system, where users can read them. Pure.
//
// The directory has id, bin, job.sh, node.sh, log, coordinator and its keys, tokens; and ready, one line
// that the script writes once the coordinator serves: "JOB HTTPS NODES TOKEN".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client::cluster {

struct SlurmScript {
  std::string cluster;
  std::string id;                  // of its record
  std::string directory;           // of the cluster, absolute
  std::string size;                // of the allocation: "4", "2-4"
  std::string admin;               // who signs in
  std::vector<std::string> flags;  // of sbatch
  int64_t margin_s = 0;            // before the time limit
  bool resubmits = false;          // while jobs are not over
};
std::string JobScript(const SlurmScript& script);
std::string NodeScript(const SlurmScript& script);

// "4" or "2-4". JC1801.
absl::Status CheckSize(std::string_view size);

// The line of `ready`.
struct Ready {
  std::string job;
  std::string https;  // HOST:PORT
  uint32_t nodes = 0;
  std::string token;
};
absl::StatusOr<Ready> ParseReady(std::string_view text);

// The name of the cluster's allocations in Slurm. `id`: of its record, as the same account may have
// another cluster of this name.
std::string SlurmName(std::string_view cluster, std::string_view id);
// sbatch's flags that follow the user's and override them: allocations are found by their name, and two
// at once would share one data directory.
std::vector<std::string> OwnFlags(std::string_view cluster, std::string_view id);

}  // namespace muster::client::cluster
