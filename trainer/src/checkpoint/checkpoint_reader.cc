// See checkpoint_reader.h.
#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstdio>

#include "base/files.h"
#include "checkpoint/joint_step.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Runs on rank 0. Returns a path, or "" for a fresh start, which happens only if the directory has
// no checkpoints at all: damaged ones may still be repaired and must not be overwritten silently.
std::string choose_source(const std::string& resume_from, const std::string& directory) {
  if (!resume_from.empty()) return resume_from;
  if (directory.empty()) return "";
  std::vector<int64_t> steps = list_steps(directory);
  std::reverse(steps.begin(), steps.end());
  std::string newest_error;
  for (const int64_t step : steps) {
    const std::string path = directory + "/" + step_name(step);
    const std::string error = error_of([&] { read_checkpoint(path, /*verify_hashes=*/true); });
    if (error.empty()) return path;
    std::fprintf(stderr, "muster: skipping a checkpoint: %s\n", error.c_str());
    if (newest_error.empty()) newest_error = error;
  }
  if (steps.empty()) return "";
  throw CheckpointError(
      "none of the " + std::to_string(steps.size()) + " checkpoints in " + directory +
      " is intact (the newest: " + newest_error +
      "): repair one, or set resume_from to another; to start over on purpose, move " + directory +
      " away or set another checkpoint_dir");
}

// Runs on rank 0.
std::string choose_in(const std::string& from) {
  if (path_exists(from + "/" + kManifestName)) return from;
  const std::vector<int64_t> steps = list_steps(from);
  if (!steps.empty()) return from + "/" + step_name(steps.back());
  throw CheckpointError("load_state: " + from +
                        (path_exists(from) ? " has neither a " + std::string(kManifestName) +
                                                 " nor checkpoints step-N"
                                           : " does not exist") +
                        ": name a checkpoint, or a folder of them");
}

}  // namespace

CheckpointReader::CheckpointReader(std::string path, const Topology& topology, bool verify_hashes)
    : path_(std::move(path)),
      manifest_(std::make_shared<const Manifest>(read_checkpoint(path_, verify_hashes))),
      files_(std::make_shared<CheckpointFiles>(path_)) {
  if (manifest_->world_size == topology.world_size) {
    own_shard_ = shard_name(topology.rank, topology.world_size);
  }
}

std::unique_ptr<TensorSource> CheckpointReader::under(const std::string& prefix) const {
  return std::make_unique<CheckpointTensors>(path_, manifest_, files_, prefix + "/");
}

TensorMap CheckpointReader::own() const {
  TensorMap own;
  if (!own_shard_ || !path_exists(path_ + "/" + *own_shard_)) return own;
  const SafetensorsReader& file = files_->open(*own_shard_);
  for (const std::string& name : file.names()) {
    if (name.starts_with(kOwnPrefix)) own[name.substr(kOwnPrefix.size())] = file.tensor(name);
  }
  return own;
}

namespace {

// What people are told.
struct Telling {
  const char* fix_elsewhere;  // where another node does not have what rank 0 sees
  bool restores_positions;
};

// Opens what `choose` returns on rank 0; nullopt if that is "".
std::optional<CheckpointReader> open_chosen(const std::function<std::string()>& choose,
                                            const Telling& telling, const Topology& topology,
                                            const ProcessGroupPtr& group) {
  std::string path;
  const std::string choice_error = error_of([&] {
    if (topology.rank == 0) path = choose();
  });
  agree_on_success(group, choice_error);
  path = broadcast_string(group, path);
  if (path.empty()) return std::nullopt;
  std::optional<CheckpointReader> reader;
  // One rank per node reads every byte to verify the hashes; the others read only what they load.
  const bool verify = topology.local_rank == 0;
  std::string error = error_of([&] { reader.emplace(path, topology, verify); });
  if (!error.empty() && topology.node_rank > 0 && !path_exists(path)) {
    error += std::string(" (rank 0 sees it: ") + telling.fix_elsewhere + ")";
  }
  agree_on_success(group, error);
  if (telling.restores_positions && !reader->same_world_size() && topology.rank == 0) {
    std::fprintf(stderr,
                 "muster: %s was saved by %d ranks, now there are %d: model, optimizer and data "
                 "position are restored, random numbers are reseeded from step and rank\n",
                 path.c_str(), reader->manifest().world_size, topology.world_size);
  }
  return reader;
}

}  // namespace

std::optional<CheckpointReader> open_checkpoint(const std::string& resume_from,
                                                const std::string& directory,
                                                const Topology& topology,
                                                const ProcessGroupPtr& group) {
  return open_chosen(
      [&] { return choose_source(resume_from, directory); },
      {.fix_elsewhere = "put the checkpoint directory on a file system that all nodes "
                        "share, or run under Muster, which copies it to every node",
       .restores_positions = true},
      topology, group);
}

CheckpointReader open_named_checkpoint(const std::string& from, bool is_whole,
                                       const Topology& topology, const ProcessGroupPtr& group) {
  return open_chosen([&] { return choose_in(from); },
                     {.fix_elsewhere = "put it where every node has it, under the same path",
                      .restores_positions = is_whole},
                     topology, group)
      .value();
}

void together(const ProcessGroupPtr& group, const std::function<void()>& step) {
  agree_on_success(group, error_of(step));
}

}  // namespace muster
