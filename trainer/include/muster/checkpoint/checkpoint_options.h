// How checkpoints are saved, which of them are kept, and which are there.
//
// A checkpoint is a directory step-N that appears under that name only when it is complete on the
// disk (docs/formats-checkpoint.md). Plain values and file reading: no LibTorch, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Which value of a metric is the better one.
enum class MetricMode { min, max };

// Which checkpoints stay in the directory. A checkpoint stays when any of the rules below wants it.
// Never removed, whatever the rules say: the newest one, and under a worker every one that the
// coordinator does not hold yet as well as the newest one that it holds.
struct CheckpointPolicy {
  // The newest so many stay; 0: all stay, and the other rules have nothing to decide.
  int keep_last = 0;
  // Those whose step is divisible by this stay for good; 0: no such rule.
  int64_t keep_every = 0;
  // The keep_best ones with the best value of this metric stay. The value is the one given at
  // the save (SaveOptions::metrics). Saves without it, or with NaN, never count as best; of equal
  // values the earlier step wins. Empty: no such rule.
  std::string best_metric = {};
  MetricMode best_mode = MetricMode::min;
  int keep_best = 1;
};

// How save_state works.
struct CheckpointOptions {
  // save_state returns as soon as the state is copied into buffers of its own, which are used again
  // by the next save (pinned when the state lies on a device); one background thread writes. At
  // most one save is under way: the next one waits for it. An error of the background shows on all
  // ranks alike, at the next save_state or wait_for_checkpoint. False: save_state returns when the
  // checkpoint is durable.
  bool asynchronous = false;
  CheckpointPolicy policy = {};
  // How long save_state and wait_for_checkpoint wait for a save that is under way before they throw
  // CheckpointError.
  std::chrono::milliseconds wait_timeout = std::chrono::minutes(30);
};

// Of one save.
struct SaveOptions {
  // Written into the checkpoint, for CheckpointPolicy::best_metric and for people. The same on all
  // ranks; rank 0's count.
  std::map<std::string, double> metrics = {};
  // Wait until this checkpoint is durable, also when saves are asynchronous (the last one before
  // the process ends, say).
  bool wait = false;
};

// A checkpoint as it stands in a directory.
struct CheckpointInfo {
  int64_t step = 0;
  std::string path;        // of the directory step-N
  int64_t created_ms = 0;  // since 1970, UTC
  int world_size = 0;      // ranks that wrote it
  std::map<std::string, double> metrics;
};

// The complete checkpoints in a directory, ascending by step: their manifest can be read and every
// file it names is there with its size (hashes are checked when one is loaded). Unfinished and
// damaged ones are left out; a missing directory has none.
std::vector<CheckpointInfo> list_checkpoints(const std::string& directory);

// The newest complete one.
std::optional<CheckpointInfo> latest_checkpoint(const std::string& directory);

// The one with the best value of `metric`; nullopt when none has it.
std::optional<CheckpointInfo> best_checkpoint(const std::string& directory,
                                              const std::string& metric,
                                              MetricMode mode = MetricMode::min);

// The decision alone: which steps of `checkpoints` (in any order) may go, ascending. Those above
// `removable_up_to` are not yet held by the coordinator; without a worker it is the greatest
// int64_t. Throws std::invalid_argument when a number of the policy is negative.
std::vector<int64_t> checkpoints_to_remove(const std::vector<CheckpointInfo>& checkpoints,
                                           const CheckpointPolicy& policy, int64_t removable_up_to);

}  // namespace muster
