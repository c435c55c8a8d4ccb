// Tensors in safetensors files: the format that Python's safetensors and Hugging Face loaders read.
//
// Source: github.com/huggingface/safetensors (README, tensor.rs); docs/formats-checkpoint.md.
// Tensors are written row-major and little-endian, by dtype in the order of Python's writer
// (largest elements first), then by name. Tensors that share all their memory (tied weights) are
// written once; `__metadata__` then maps the other name to the one that was written, as
// safetensors.torch.save_model does. Any thread; a file is used by one thread at a time.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster {

using TensorMap = std::map<std::string, at::Tensor>;
using StringMap = std::map<std::string, std::string>;

// A file as it stands on the disk.
struct SavedFile {
  uint64_t bytes = 0;
  std::string sha256;  // of the whole file, 64 hexadecimal digits
};

// Writes tensors (any device, layout strided, any strides) to `path`: under a temporary name first,
// fsync, then renamed, so that the path never holds a part of a file. Throws CheckpointError when
// the disk refuses, FormatError when a tensor cannot be said in the format (complex128, quantized,
// sparse, a name that is not UTF-8).
SavedFile save_safetensors(const std::string& path, const TensorMap& tensors,
                           const StringMap& metadata = {});

// All tensors of a file, on the CPU; aliases of tied weights too, sharing memory.
// Errors as SafetensorsReader.
TensorMap load_safetensors(const std::string& path);

// Reads single tensors without loading the whole file. The header is checked strictly when the file
// is opened; bad files give a FormatError that names the file and the first rule they break, and
// never cost more memory than a few times their size.
class SafetensorsReader {
 public:
  // Throws CheckpointError when the file cannot be read, FormatError when it is not valid.
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;

  // Names in the file and aliases of them, sorted.
  std::vector<std::string> names() const;
  const StringMap& metadata() const;
  // Further names of tied weights and the name under which each was written.
  StringMap aliases() const;
  bool contains(const std::string& name) const;
  // The format's word for the dtype ("F32"). These throw FormatError when the name is unknown.
  std::string dtype(const std::string& name) const;
  std::vector<int64_t> shape(const std::string& name) const;

  // A new CPU tensor with the file's dtype and shape. Throws FormatError when the name is unknown
  // or LibTorch has no such dtype (F4, F6_*).
  at::Tensor tensor(const std::string& name) const;

  // Reads into a tensor of the same shape on any device; another dtype is converted. A contiguous
  // CPU tensor of the file's dtype is filled straight from the file. Not recorded by autograd.
  // Throws FormatError when the name is unknown or the shape differs.
  void read_into(const std::string& name, const at::Tensor& target) const;

  // Reads elements [begin, begin + target.numel()) of the row-major flattened tensor, and no other
  // bytes, into a 1-D tensor on any device; conversion and speed as read_into. Throws FormatError
  // when the name is unknown, std::invalid_argument when the range leaves the tensor or the target
  // is not 1-D.
  void read_range(const std::string& name, int64_t begin, const at::Tensor& target) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The format's word for a tensor's dtype ("F32"). Throws FormatError when it has none.
std::string safetensors_dtype(at::ScalarType type);

}  // namespace muster
