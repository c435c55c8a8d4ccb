// A job file in the making, from answers or from another launcher's files. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launchers/launchers.h"

namespace muster::client {

// A part that cannot be taken over, and without which the job would mean something else.
struct RefusedPart {
  std::string name;  // for --ignore: "array", "lines"
  std::string what;  // "line 3: --array=0-7: one task would run, not each"
  std::string fix;
};

struct JobDraft {
  std::string source;  // "train.sbatch"; empty: answers
  std::string name;
  std::vector<std::string> command;
  std::string workdir;
  bool sync = false;  // the job file's directory is sent with the job
  std::string image;
  uint32_t processes = 0;  // total ranks, or per_node and nodes
  uint32_t per_node = 0;
  uint32_t min_nodes = 0;
  uint32_t max_nodes = 0;
  std::string devices;        // "gpu", "a100"; empty: whatever the cluster has
  uint32_t device_total = 0;  // of the job, if it is not one for each rank
  std::string cpus;           // of each rank at most, as in a job file; empty: no limit
  std::string memory;
  std::optional<uint32_t> restarts;
  std::optional<uint32_t> grace_ms;
  uint64_t max_duration_ms = 0;
  uint64_t estimate_ms = 0;
  std::map<std::string, std::string> env;
  bool env_from_shell = false;
  std::string role;
  std::string run_id;
  std::string log_dir;
  bool virtual_local_rank = false;
  std::vector<std::string> notes;     // what Muster does differently than the source
  std::vector<std::string> left_out;  // parts that were not taken over, with reasons
  std::vector<RefusedPart> refused;
};

// `on_a_node`: how many devices of a kind ("gpu", "auto") this machine has, for launchers that count
// them.
using CountDevices = std::function<uint32_t(const std::string& kind)>;
// Takes over shape, command and settings of a launcher, without those that the launcher would have
// decided itself.
void TakePlan(const LaunchPlan& plan, const CountDevices& on_a_node, JobDraft* draft);

// The commented file. Errors: those that submitting it would have (JC11xx).
absl::StatusOr<std::string> JobFileOf(const JobDraft& draft, const std::string& file_name);

}  // namespace muster::client
