// See checkpoint_reader.h.
#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstdio>

#include "base/files.h"
#include "checkpoint/joint_step.h"
#include "muster/errors.h"

namespace muster {
namespace {

// The tensors of the manifest below a prefix.
class CheckpointTensors : public TensorSource {
 public:
  using Files = std::map<std::string, SafetensorsReader>;

  CheckpointTensors(std::string path, std::shared_ptr<const Manifest> manifest,
                    std::shared_ptr<Files> files, std::string prefix)
      : path_(std::move(path)),
        manifest_(std::move(manifest)),
        files_(std::move(files)),
        prefix_(std::move(prefix)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    const auto& all = manifest_->tensors;
    for (auto at = all.lower_bound(prefix_); at != all.end() && at->first.starts_with(prefix_);
         ++at) {
      names.push_back(at->first.substr(prefix_.size()));
    }
    return names;
  }

  std::optional<TensorDescription> find(const std::string& name) const override {
    const auto found = manifest_->tensors.find(prefix_ + name);
    if (found == manifest_->tensors.end()) return std::nullopt;
    return TensorDescription{found->second.dtype, found->second.shape};
  }

  at::Tensor read(const std::string& name) const override {
    const ManifestTensor& description = description_of(name);
    if (const TensorPiece* piece = single_piece(description)) {
      return file(piece->file).tensor(piece->tensor);
    }
    at::Tensor whole;
    for_each_piece(name, description, [&](const at::Tensor& part) {
      if (!whole.defined()) whole = at::zeros(description.shape, part.options());
      return whole;
    });
    return whole;
  }

  void read_into(const std::string& name, const at::Tensor& target) const override {
    const ManifestTensor& description = description_of(name);
    if (const TensorPiece* piece = single_piece(description)) {
      file(piece->file).read_into(piece->tensor, target);
      return;
    }
    for_each_piece(name, description, [&](const at::Tensor&) { return target; });
  }

 private:
  const ManifestTensor& description_of(const std::string& name) const {
    const auto found = manifest_->tensors.find(prefix_ + name);
    if (found != manifest_->tensors.end()) return found->second;
    throw FormatError(path_ + " has no tensor '" + prefix_ + name + "'");
  }

  static const TensorPiece* single_piece(const ManifestTensor& description) {
    const bool single =
        description.pieces.size() == 1 && description.pieces[0].sizes == description.shape;
    return single ? &description.pieces[0] : nullptr;
  }

  SafetensorsReader& file(const std::string& name) const {
    return files_->try_emplace(name, path_ + "/" + name).first->second;
  }

  // Copies every piece to its place in the tensor that `whole_for(piece)` gives.
  template <typename WholeFor>
  void for_each_piece(const std::string& name, const ManifestTensor& description,
                      WholeFor whole_for) const {
    const torch::NoGradGuard no_grad;
    int64_t covered = 0;
    for (const TensorPiece& piece : description.pieces) {
      const at::Tensor part = file(piece.file).tensor(piece.tensor);
      if (part.sizes() != at::IntArrayRef(piece.sizes) ||
          piece.offsets.size() != description.shape.size() ||
          piece.sizes.size() != description.shape.size()) {
        throw FormatError(path_ + "/" + piece.file + ": tensor '" + piece.tensor +
                          "' is not the piece of '" + name + "' that the manifest describes");
      }
      at::Tensor target = whole_for(part);
      for (size_t d = 0; d < piece.sizes.size(); ++d) {
        target = target.narrow(static_cast<int64_t>(d), piece.offsets[d], piece.sizes[d]);
      }
      target.copy_(part);
      covered += part.numel();
    }
    if (description.pieces.empty() || covered != c10::multiply_integers(description.shape)) {
      throw FormatError(path_ + ": the pieces of '" + name + "' do not make a whole tensor");
    }
  }

  std::string path_;
  std::shared_ptr<const Manifest> manifest_;
  std::shared_ptr<Files> files_;
  std::string prefix_;
};

// Rank 0 decides; the answer is a path, empty for a fresh start.
std::string choose_source(const std::string& resume_from, const std::string& directory) {
  if (!resume_from.empty()) return resume_from;
  if (directory.empty()) return "";
  std::vector<int64_t> steps = list_steps(directory);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    const std::string path = directory + "/" + step_name(step);
    const std::string error = error_of([&] { read_checkpoint(path, /*verify_hashes=*/true); });
    if (error.empty()) return path;
    std::fprintf(stderr, "muster: passing over a checkpoint: %s\n", error.c_str());
  }
  return "";
}

}  // namespace

CheckpointReader::CheckpointReader(std::string path, const Topology& topology, bool verify_hashes)
    : path_(std::move(path)),
      manifest_(std::make_shared<const Manifest>(read_checkpoint(path_, verify_hashes))),
      files_(std::make_shared<Files>()) {
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
  const SafetensorsReader& file =
      files_->try_emplace(*own_shard_, path_ + "/" + *own_shard_).first->second;
  for (const std::string& name : file.names()) {
    if (name.starts_with(kOwnPrefix)) own[name.substr(kOwnPrefix.size())] = file.tensor(name);
  }
  return own;
}

std::optional<CheckpointReader> open_checkpoint(const std::string& resume_from,
                                                const std::string& directory,
                                                const Topology& topology,
                                                const ProcessGroupPtr& group) {
  std::string path;
  const std::string choice_error = error_of([&] {
    if (topology.rank == 0) path = choose_source(resume_from, directory);
  });
  agree_on_success(group, choice_error);
  path = broadcast_string(group, path);
  if (path.empty()) return std::nullopt;
  std::optional<CheckpointReader> reader;
  // One rank per node reads every byte for the hashes; the others read only what they load.
  const bool verify = topology.local_rank == 0;
  std::string error = error_of([&] { reader.emplace(path, topology, verify); });
  if (!error.empty() && topology.node_rank > 0 && !path_exists(path)) {
    error += " (rank 0 sees it: put the checkpoint directory on a file system that all nodes " +
             std::string("share, or run under Muster, which brings it to every node)");
  }
  agree_on_success(group, error);
  if (!reader->same_world_size() && topology.rank == 0) {
    std::fprintf(
        stderr,
        "muster: %s was saved by %d ranks, now there are %d: model, optimizer and place in "
        "the data continue, random numbers begin anew from step and rank\n",
        path.c_str(), reader->manifest().world_size, topology.world_size);
  }
  return reader;
}

void together(const ProcessGroupPtr& group, const std::function<void()>& step) {
  agree_on_success(group, error_of(step));
}

}  // namespace muster
