// Finding a checkpoint that all ranks agree on, and reading from it. Training thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_tensors.h"
#include "checkpoint/tensor_source.h"
#include "muster/base/topology.h"
#include "muster/checkpoint/safetensors.h"
#include "parallel/process_group.h"

namespace muster {

// An open checkpoint: tensors are read one by one when they are asked for. Copies share the files.
class CheckpointReader {
 public:
  // Throws CheckpointError or FormatError, naming the file. verify_hashes reads every byte.
  CheckpointReader(std::string path, const Topology& topology, bool verify_hashes);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return *manifest_; }
  // Saved by as many ranks as there are now: the run can go on bit for bit.
  bool same_world_size() const { return own_shard_.has_value(); }

  // The tensors of the whole run under `prefix` ("model", "optim.1", "custom/x"), named by what
  // follows the slash: none when nothing was saved there. It is the same to a reader whether one
  // rank wrote a tensor or several wrote parts of it. Reading from it may throw CheckpointError
  // or FormatError on this rank alone: see together().
  std::unique_ptr<TensorSource> under(const std::string& prefix) const;
  TensorMap read(const std::string& prefix) const { return read_tensors(*under(prefix)); }

  // What this rank saved for itself (random numbers); empty when the world size differs.
  TensorMap own() const;

 private:
  std::string path_;
  std::shared_ptr<const Manifest> manifest_;
  std::shared_ptr<CheckpointFiles> files_;
  std::optional<std::string> own_shard_;
};

// Collective. Opens `resume_from`, or when that is empty the newest whole checkpoint in
// `directory`; damaged ones there are passed over with a warning. nullopt when there is nothing to
// resume from. Every byte is read once per node, for the hashes. Throws CheckpointError or
// FormatError on all ranks, naming the file. Warns when the world size differs: random numbers are
// then begun anew.
std::optional<CheckpointReader> open_checkpoint(const std::string& resume_from,
                                                const std::string& directory,
                                                const Topology& topology,
                                                const ProcessGroupPtr& group);

// Collective. Runs a step that may fail on some ranks (reading tensors, say); when it fails on one,
// all throw CheckpointError with that rank's message.
void together(const ProcessGroupPtr& group, const std::function<void()>& step);

}  // namespace muster
