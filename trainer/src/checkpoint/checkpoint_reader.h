// Finds a checkpoint that all ranks agree on, and reads from it. Training thread only.
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

// An open checkpoint; tensors are read on demand, one at a time. Copies share the files.
class CheckpointReader {
 public:
  // Throws CheckpointError or FormatError, naming the file. verify_hashes reads every byte.
  CheckpointReader(std::string path, const Topology& topology, bool verify_hashes);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return *manifest_; }
  // Whether it was saved by the current world size: the run can then resume bit-identically.
  bool same_world_size() const { return own_shard_.has_value(); }

  // The tensors of the whole run under `prefix` ("model", "optim.1", "custom/x"), named by what
  // follows the slash; empty if nothing was saved there. Whether one rank wrote a tensor or several
  // wrote shards of it makes no difference to the reader. Reading may throw CheckpointError or
  // FormatError on this rank only: see together().
  std::unique_ptr<TensorSource> under(const std::string& prefix) const;
  TensorMap read(const std::string& prefix) const { return read_tensors(*under(prefix)); }

  // This rank's own tensors (random-number states); empty if the world size differs.
  TensorMap own() const;

 private:
  std::string path_;
  std::shared_ptr<const Manifest> manifest_;
  std::shared_ptr<CheckpointFiles> files_;
  std::optional<std::string> own_shard_;
};

// Collective. Opens `resume_from` or, if that is empty, the newest intact checkpoint in
// `directory`, skipping damaged ones with a warning. nullopt if there is nothing to resume from.
// Every byte is read once per node to verify the hashes. Throws CheckpointError or FormatError on
// all ranks, naming the file. Warns if the world size differs: random numbers are then reseeded.
std::optional<CheckpointReader> open_checkpoint(const std::string& resume_from,
                                                const std::string& directory,
                                                const Topology& topology,
                                                const ProcessGroupPtr& group);

// Collective. Opens `from`, a checkpoint or a folder of them: then the newest. Never another one:
// throws as open_checkpoint does if it is damaged, and CheckpointError if there is none. `is_whole`:
// positions and generators will be restored, too.
CheckpointReader open_named_checkpoint(const std::string& from, bool is_whole,
                                       const Topology& topology, const ProcessGroupPtr& group);

// Collective. Runs a step that may fail on some ranks (such as reading tensors); if it fails on
// one, all throw CheckpointError with that rank's message.
void together(const ProcessGroupPtr& group, const std::function<void()>& step);

}  // namespace muster
