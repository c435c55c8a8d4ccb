// What the ranks do together to write and to read a checkpoint directory (docs/protocol.md,
// docs/formats-checkpoint.md). Training thread only; every function is collective: all ranks call
// it at the same point, and either all succeed or all throw.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_directory.h"
#include "muster/safetensors.h"
#include "muster/topology.h"
#include "parallel/process_group.h"

namespace muster {

struct CheckpointWriterOptions {
  std::string directory;
  Topology topology;
  int keep = 0;  // checkpoints to keep in the directory; 0: all
  // Called on each rank as it passes a stage of a save: "prepared", "shard", "parts", "manifest",
  // "published".
  std::function<void(const char* stage)> on_stage;
};

// What this rank puts into a checkpoint.
struct CheckpointContent {
  TensorMap global;   // of the whole run; written by the rank that holds them (rank 0 with DDP)
  TensorMap own;      // of this rank alone (random numbers)
  Manifest manifest;  // rank 0: step, data, bucket_order, job, attempt; the rest is filled in
};

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointWriterOptions options, ProcessGroupPtr group);

  // Writes step-N and returns its path. Steps above removable_up_to survive the retention.
  // A kill at any instant leaves every earlier checkpoint as it was and no half-written step-N.
  // Throws CheckpointError on all ranks when one of them failed.
  std::string save(const CheckpointContent& content, int64_t removable_up_to);

 private:
  void find_publisher();
  void prepare(const std::string& temporary);
  std::string write_shard(const std::string& temporary, const CheckpointContent& content);
  void write_lists(const std::string& temporary, const Manifest& base,
                   const std::vector<std::string>& reports);
  void stage(const char* name) const;

  CheckpointWriterOptions options_;
  ProcessGroupPtr group_;
  // The rank that makes and renames the directory that this rank sees: rank 0 where its directory
  // is visible, else the first rank of the node. -1: not found out yet.
  int publisher_ = -1;
};

struct LoadedCheckpoint {
  std::string path;
  Manifest manifest;
  TensorMap global;
  TensorMap own;  // empty when the world size differs from the saved one
};

// Reads `resume_from`, or when that is empty the newest whole checkpoint in `directory`; damaged
// ones there are passed over with a warning. nullopt when there is nothing to resume from. Throws
// CheckpointError or FormatError on all ranks, naming the file.
std::optional<LoadedCheckpoint> load_checkpoint(const std::string& resume_from,
                                                const std::string& directory,
                                                const Topology& topology,
                                                const ProcessGroupPtr& group);

}  // namespace muster
