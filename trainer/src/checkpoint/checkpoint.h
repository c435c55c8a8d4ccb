// What the ranks do together to write a checkpoint directory (docs/protocol.md,
// docs/formats-checkpoint.md). One thread at a time; saving is collective: all ranks call it at the
// same point, and either all succeed or all throw. Reading: checkpoint_reader.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/retention.h"
#include "checkpoint/tensor_shard.h"
#include "muster/base/topology.h"
#include "muster/checkpoint/checkpoint_options.h"
#include "muster/checkpoint/safetensors.h"
#include "parallel/process_group.h"

namespace muster {

struct CheckpointWriterOptions {
  std::string directory;
  Topology topology;
  CheckpointPolicy policy = {};
  // Called on each rank, on the thread that saves, as it passes a stage of a save: "prepared",
  // "shard", "parts", "manifest", "published", "retained". An AsyncCheckpointer adds "snapshot".
  std::function<void(const char* stage)> on_stage = {};
  // Called on each rank, on the thread that saves, when step-N is there. Must not throw.
  std::function<void(int64_t step, const std::string& path)> on_published = {};
};

// What this rank puts into a checkpoint.
struct CheckpointContent {
  TensorMap global;  // of the whole run; written by the rank that holds them (rank 0 with DDP)
  // Of the whole run too, but sharded: each rank writes its parts, nothing is gathered. A name is
  // either in `global` of one rank or in `shards` of some.
  ShardMap shards;
  TensorMap own;      // of this rank alone (random numbers)
  Manifest manifest;  // rank 0: step (all ranks), data, bucket_order, metrics, job, attempt; the
                      // rest is filled in
  std::string
      error;  // not empty: this rank could not gather its content; the save fails everywhere
};

class CheckpointWriter {
 public:
  // Throws std::invalid_argument for a policy with negative numbers. `group`: null for one rank.
  CheckpointWriter(CheckpointWriterOptions options, ProcessGroupPtr group);

  // Writes step-N and returns its path. Steps above removable_up_to survive the retention.
  // A kill at any instant leaves every earlier checkpoint as it was and no half-written step-N.
  // Throws CheckpointError on all ranks when one of them failed.
  std::string save(const CheckpointContent& content, int64_t removable_up_to);

  std::string path_of(int64_t step) const;
  const CheckpointWriterOptions& options() const { return options_; }

 private:
  void find_publisher();
  std::map<std::string, double> agreed_metrics(const std::map<std::string, double>& own) const;
  void prepare(const std::string& temporary);
  std::string write_shard(const std::string& temporary, const CheckpointContent& content);
  void write_lists(const std::string& temporary, const Manifest& base,
                   const std::vector<std::string>& reports);
  void stage(const char* name) const;

  CheckpointWriterOptions options_;
  ProcessGroupPtr group_;
  Retention retention_;
  // The rank that makes and renames the directory that this rank sees: rank 0 where its directory
  // is visible, else the first rank of the node. -1: not found out yet.
  int publisher_ = -1;
};

}  // namespace muster
