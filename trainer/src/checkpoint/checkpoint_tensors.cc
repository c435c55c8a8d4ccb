// See checkpoint_tensors.h.
#include "checkpoint/checkpoint_tensors.h"

#include <algorithm>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/tensor_pieces.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// A checkpoint of a thousand ranks has more files than a process may open at once.
constexpr size_t kOpenFilesMax = 128;

}  // namespace

const SafetensorsReader& CheckpointFiles::open(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  if (files_.size() >= kOpenFilesMax) files_.clear();
  return files_.try_emplace(name, path_ + "/" + name).first->second;
}

CheckpointTensors::CheckpointTensors(std::string path, std::shared_ptr<const Manifest> manifest,
                                     std::shared_ptr<CheckpointFiles> files, std::string prefix)
    : path_(std::move(path)),
      manifest_(std::move(manifest)),
      files_(std::move(files)),
      prefix_(std::move(prefix)) {}

std::vector<std::string> CheckpointTensors::names() const {
  std::vector<std::string> names;
  const auto& all = manifest_->tensors;
  for (auto at = all.lower_bound(prefix_); at != all.end() && at->first.starts_with(prefix_);
       ++at) {
    names.push_back(at->first.substr(prefix_.size()));
  }
  return names;
}

std::optional<TensorDescription> CheckpointTensors::find(const std::string& name) const {
  const auto found = manifest_->tensors.find(prefix_ + name);
  if (found == manifest_->tensors.end()) return std::nullopt;
  return TensorDescription{found->second.dtype, found->second.shape};
}

const ManifestTensor& CheckpointTensors::description_of(const std::string& name) const {
  const auto found = manifest_->tensors.find(prefix_ + name);
  if (found != manifest_->tensors.end()) return found->second;
  throw FormatError(path_ + " has no tensor '" + prefix_ + name + "'");
}

at::Tensor CheckpointTensors::read(const std::string& name) const {
  const ManifestTensor& tensor = description_of(name);
  // Before allocating memory: a manifest may claim any shape.
  require_cover(prefix_ + name, tensor, path_);
  const at::ScalarType type = torch_dtype(tensor.dtype, path_ + ": '" + prefix_ + name + "'");
  at::Tensor whole = at::empty(tensor.shape, at::TensorOptions().dtype(type));
  fill(name, tensor, 0, whole.view({-1}));
  return whole;
}

void CheckpointTensors::read_into(const std::string& name, const at::Tensor& target) const {
  const ManifestTensor& tensor = description_of(name);
  if (target.sizes() != at::IntArrayRef(tensor.shape)) {
    throw FormatError(path_ + ": tensor '" + prefix_ + name + "' does not have its target's shape");
  }
  require_cover(prefix_ + name, tensor, path_);
  if (target.is_contiguous()) {
    fill(name, tensor, 0, target.detach().view({-1}));
    target.unsafeGetTensorImpl()->bump_version();
  } else {
    const torch::NoGradGuard no_grad;
    at::Tensor(target).copy_(read(name));
  }
}

void CheckpointTensors::read_range(const std::string& name, int64_t begin,
                                   const at::Tensor& target) const {
  const ManifestTensor& tensor = description_of(name);
  require_range(prefix_ + name, count_elements(tensor.shape, path_ + ": '" + prefix_ + name + "'"),
                begin, target);
  require_cover(prefix_ + name, tensor, path_);
  fill(name, tensor, begin, target);
}

// Reads elements [begin, begin + target.numel()), which must be in the tensor, into a 1-D target.
void CheckpointTensors::fill(const std::string& name, const ManifestTensor& tensor, int64_t begin,
                             const at::Tensor& target) const {
  for (const TensorPiece& piece : tensor.pieces) {
    try {
      fill_from(piece, tensor, begin, target);
    } catch (const Error& error) {
      // The reader knows neither the run's name of the tensor nor the requested range.
      const std::string text = std::string(error.what()) + " (" +
                               range_text(begin, begin + target.numel()) + " of '" + prefix_ +
                               name + "' were requested)";
      if (dynamic_cast<const FormatError*>(&error) != nullptr) throw FormatError(text);
      throw CheckpointError(text);
    }
  }
}

void CheckpointTensors::fill_from(const TensorPiece& piece, const ManifestTensor& tensor,
                                  int64_t begin, const at::Tensor& target) const {
  const std::vector<PieceRun> runs = runs_of(piece, tensor.shape, begin, begin + target.numel());
  if (runs.empty()) return;
  const SafetensorsReader& file = files_->open(piece.file);
  if (file.shape(piece.tensor) != piece.sizes || file.dtype(piece.tensor) != tensor.dtype) {
    throw FormatError(path_ + "/" + piece.file + ": tensor '" + piece.tensor +
                      "' is not the piece that the manifest describes");
  }
  const torch::NoGradGuard no_grad;
  // A box with many rows is read in one go, because its rows may be short.
  const at::Tensor box = runs.size() > 1 ? file.tensor(piece.tensor).view({-1}) : at::Tensor();
  for (const PieceRun& run : runs) {
    const at::Tensor part = target.narrow(0, run.in_tensor - begin, run.count);
    if (box.defined()) {
      at::Tensor(part).copy_(box.narrow(0, run.in_piece, run.count));
    } else {
      file.read_range(piece.tensor, run.in_piece, part);
    }
  }
}

}  // namespace muster
