#include "checkpoint/weight_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/files.h"
#include "checkpoint/mapped_tensors.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/torch_weights.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// What it refers to must outlive it.
ByteSource source_of(const FileDescriptor& fd, const std::string& path, uint64_t size) {
  return {size, [&fd, &path](uint64_t offset, char* into, size_t bytes) {
            read_at(fd, path, offset, into, bytes);
          }};
}

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
  TorchSaveWeights(std::string path, FileDescriptor fd, uint64_t size)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        weights_(read_torch_weights(source_of(fd_, path_, size), path_)),
        mapped_(fd_, path_) {}

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
      throw FormatError(path_ + ": tensor '" + name + "' does not have its target's shape");
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
    read_at(fd_, path_, saved.begin, target.mutable_data_ptr(), saved.bytes);
    target.unsafeGetTensorImpl()->bump_version();  // as an in-place operation would
  }

 private:
  const TorchTensor& entry(const std::string& name) const {
    const auto found = weights_.tensors.find(name);
    if (found == weights_.tensors.end()) throw FormatError(path_ + " has no tensor '" + name + "'");
    return found->second;
  }
  at::ScalarType type_of(const TorchTensor& saved, const std::string& name) const {
    return torch_dtype(saved.dtype, path_ + ": tensor '" + name + "'");
  }

  // With the strides that it was saved with.
  at::Tensor as_saved(const std::string& name) const {
    const TorchTensor& saved = entry(name);
    return mapped_.tensor({saved.dtype, saved.shape, saved.strides, 0, saved.begin, saved.bytes},
                          name);
  }

  const std::string path_;
  const FileDescriptor fd_;
  const TorchWeights weights_;
  mutable MappedTensors mapped_;
};

}  // namespace

std::unique_ptr<WeightFile> open_weight_file(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) throw_errno("read", path);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (!is_torch_file(source_of(fd, path, size))) return std::make_unique<SafetensorsWeights>(path);
  return std::make_unique<TorchSaveWeights>(path, std::move(fd), size);
}

}  // namespace muster
