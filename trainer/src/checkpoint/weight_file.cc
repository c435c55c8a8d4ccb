#include "checkpoint/weight_file.h"

#include <utility>

#include "checkpoint/mapped_tensors.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/source_file.h"
#include "checkpoint/torch_weights.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

class SafetensorsWeights final : public WeightFile {
 public:
  explicit SafetensorsWeights(const std::string& path) : reader_(path) {}

  std::vector<std::string> names() const override { return reader_.names(); }
  StringMap aliases() const override { return reader_.aliases(); }
  bool contains(const std::string& name) const override { return reader_.contains(name); }
  std::string dtype(const std::string& name) const override { return reader_.dtype(name); }
  std::vector<int64_t> shape(const std::string& name) const override { return reader_.shape(name); }
  at::Tensor tensor(const std::string& name) const override { return reader_.tensor(name); }
  void read_into(const std::string& name, const at::Tensor& target) const override {
    reader_.read_into(name, target);
  }

 private:
  const SafetensorsReader reader_;
};

// A file of torch.save; torch_weights.cc tells where its tensors lie.
class TorchSaveWeights final : public WeightFile {
 public:
  explicit TorchSaveWeights(SourceFile file)
      : file_(std::move(file)),
        weights_(read_torch_weights(file_.bytes(), file_.path())),
        mapped_(file_) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : weights_.tensors) names.push_back(name);
    return names;
  }
  StringMap aliases() const override { return weights_.aliases; }
  bool contains(const std::string& name) const override { return weights_.tensors.contains(name); }
  std::string dtype(const std::string& name) const override { return entry(name).dtype; }
  std::vector<int64_t> shape(const std::string& name) const override { return entry(name).shape; }

  at::Tensor tensor(const std::string& name) const override {
    const at::Tensor whole = as_saved(name);
    return whole.is_contiguous() ? whole : whole.contiguous();
  }

  void read_into(const std::string& name, const at::Tensor& target) const override {
    const TorchTensor& saved = entry(name);
    if (target.sizes() != at::IntArrayRef(saved.shape)) {
      throw FormatError(file_.path() + ": tensor '" + name + "' does not have its target's shape");
    }
    const torch::NoGradGuard no_grad;
    const bool straight = target.is_cpu() && !target.is_conj() && !target.is_neg() &&
                          target.is_contiguous() && target.scalar_type() == type_of(saved, name) &&
                          target.nbytes() == saved.bytes &&
                          at::IntArrayRef(saved.strides) == target.strides();
    if (!straight) {
      at::Tensor(target).copy_(as_saved(name));
      return;
    }
    read_at(file_.fd(), file_.path(), saved.begin, target.mutable_data_ptr(), saved.bytes);
    target.unsafeGetTensorImpl()->bump_version();  // as an in-place operation would
  }

 private:
  const TorchTensor& entry(const std::string& name) const {
    const auto found = weights_.tensors.find(name);
    if (found == weights_.tensors.end())
      throw FormatError(file_.path() + " has no tensor '" + name + "'");
    return found->second;
  }
  at::ScalarType type_of(const TorchTensor& saved, const std::string& name) const {
    return torch_dtype(saved.dtype, file_.path() + ": tensor '" + name + "'");
  }

  // With the strides that it was saved with.
  at::Tensor as_saved(const std::string& name) const {
    const TorchTensor& saved = entry(name);
    return mapped_.tensor({saved.dtype, saved.shape, saved.strides, 0, saved.begin, saved.bytes},
                          name);
  }

  const SourceFile file_;
  const TorchWeights weights_;
  mutable MappedTensors mapped_;
};

}  // namespace

std::unique_ptr<WeightFile> open_weight_file(const std::string& path) {
  SourceFile file(path);
  if (!is_torch_file(file.bytes())) return std::make_unique<SafetensorsWeights>(path);
  return std::make_unique<TorchSaveWeights>(std::move(file));
}

}  // namespace muster
