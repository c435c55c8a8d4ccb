// How checkpoints are saved, which are kept, and which exist.
//
// A checkpoint is a directory step-N that gets this name only when it is complete on disk
// (docs/formats-checkpoint.md). Plain values and file reads: no LibTorch, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Whether smaller or larger values of a metric are better.
enum class MetricMode { min, max };

// Retention: a checkpoint is kept if any rule below keeps it. Never removed: the newest checkpoint
// and, under a worker, every one that the coordinator does not have yet and the newest one that it
// has.
struct CheckpointPolicy {
  // Keeps this many of the newest; 0: keeps all, and the other rules have no effect.
  int keep_last = 0;
  // Keeps those whose step is divisible by this, permanently; 0: no such rule.
  int64_t keep_every = 0;
  // Keeps the keep_best checkpoints with the best value of this metric, as given to the save
  // (SaveOptions::metrics). Saves without the metric, or with NaN, never count as best; among equal
  // values the earlier step wins. Empty: no such rule.
  std::string best_metric = {};
  MetricMode best_mode = MetricMode::min;
  int keep_best = 1;
};

// How save_state works.
struct CheckpointOptions {
  // save_state returns as soon as the state is copied into buffers, which the next save reuses
  // (pinned if the state is on a device); a background thread writes them. At most one save is in
  // flight: the next one waits for it. A background error is thrown on all ranks by the next
  // save_state or wait_for_checkpoint. False: save_state returns when the checkpoint is durable.
  bool asynchronous = false;
  CheckpointPolicy policy = {};
  // How long save_state and wait_for_checkpoint wait for a save in flight before they throw
  // CheckpointError.
  std::chrono::milliseconds wait_timeout = std::chrono::minutes(30);
};

// Options of one save.
struct SaveOptions {
  // Written into the checkpoint, for CheckpointPolicy::best_metric and for people. Must be the same
  // on all ranks; rank 0's are used.
  std::map<std::string, double> metrics = {};
  // Wait until this checkpoint is durable even if saves are asynchronous (for example, the last one
  // before the process exits).
  bool wait = false;
};

// A checkpoint on disk.
struct CheckpointInfo {
  int64_t step = 0;
  std::string path;        // of the directory step-N
  int64_t created_ms = 0;  // Unix time, in milliseconds
  int world_size = 0;      // ranks that wrote it
  std::map<std::string, double> metrics;
};

// The complete checkpoints in a directory, in ascending order of step: the manifest is readable and
// every file it names exists with its size (hashes are checked on load). Unfinished and damaged
// ones are skipped; for a missing directory the list is empty.
std::vector<CheckpointInfo> list_checkpoints(const std::string& directory);

// The newest complete one.
std::optional<CheckpointInfo> latest_checkpoint(const std::string& directory);

// The one with the best value of `metric`; nullopt if none has it.
std::optional<CheckpointInfo> best_checkpoint(const std::string& directory,
                                              const std::string& metric,
                                              MetricMode mode = MetricMode::min);

// The retention decision alone: the steps of `checkpoints` (in any order) that may be removed,
// ascending. The coordinator does not have those above `removable_up_to` yet; without a worker,
// pass the largest int64_t. Throws std::invalid_argument if a number in the policy is negative.
std::vector<int64_t> checkpoints_to_remove(const std::vector<CheckpointInfo>& checkpoints,
                                           const CheckpointPolicy& policy, int64_t removable_up_to);

}  // namespace muster
