// Writes a checkpoint directory collectively (docs/protocol.md, docs/formats-checkpoint.md). One
// thread at a time; saving is collective, and either all ranks succeed or all throw. Reading:
// checkpoint_reader.h.
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
  // Called on each rank, on the saving thread, after each stage of a save: "prepared", "shard",
  // "parts", "manifest", "published", "retained". AsyncCheckpointer adds "snapshot".
  std::function<void(const char* stage)> on_stage = {};
  // Called on each rank, on the saving thread, once step-N is published. Must not throw.
  std::function<void(int64_t step, const std::string& path)> on_published = {};
};

// What this rank contributes to a checkpoint.
struct CheckpointContent {
  TensorMap global;  // of the whole run; written by the rank that holds them (rank 0 with DDP)
  // Sharded tensors of the whole run: each rank writes its shards, nothing is gathered. A name is
  // either in one rank's `global` or in `shards` of one or more ranks.
  ShardMap shards;
  TensorMap own;      // of this rank only (random-number states)
  Manifest manifest;  // rank 0: step (all ranks), data, bucket_order, metrics, job, attempt; the
                      // rest is filled in
  std::string
      error;  // not empty: this rank could not gather its content; the save fails everywhere
};

class CheckpointWriter {
 public:
  // Throws std::invalid_argument if the policy has negative numbers. `group`: null for one rank.
  CheckpointWriter(CheckpointWriterOptions options, ProcessGroupPtr group);

  // Writes step-N and returns its path. Retention keeps steps above removable_up_to. A kill at any
  // moment leaves earlier checkpoints intact and no half-written step-N. Throws CheckpointError on
  // all ranks if one of them fails.
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
  // The rank that creates and renames the directory that this rank sees: rank 0 if they share the
  // directory, else the first rank of the node. -1: not determined yet.
  int publisher_ = -1;
};

}  // namespace muster
