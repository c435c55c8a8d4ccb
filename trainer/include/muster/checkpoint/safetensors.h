// Reads and writes safetensors files, the format of Python's safetensors and Hugging Face loaders.
//
// Source: github.com/huggingface/safetensors (README, tensor.rs); docs/formats-checkpoint.md.
// Tensors are written row-major and little-endian, ordered by dtype as in Python's writer (largest
// elements first), then by name. Tensors that share all their memory (tied weights) are written
// once; `__metadata__` maps each other name to the one that was written, as
// safetensors.torch.save_model does. Any thread, but only one thread per file at a time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster {

using TensorMap = std::map<std::string, at::Tensor>;
using StringMap = std::map<std::string, std::string>;

// A file on disk.
struct SavedFile {
  uint64_t bytes = 0;
  std::string sha256;  // of the whole file, 64 hex digits
};

// Writes tensors (any device, strided layout, any strides) to `path`: writes a temporary file,
// fsyncs and renames it, so that `path` never holds a partial file. Throws CheckpointError on a
// disk error, FormatError if the format cannot represent a tensor (complex128, quantized, sparse, a
// name that is not UTF-8).
SavedFile save_safetensors(const std::string& path, const TensorMap& tensors,
                           const StringMap& metadata = {});

// All tensors of a file, on the CPU, including aliases of tied weights, which share memory. Throws
// as SafetensorsReader does.
TensorMap load_safetensors(const std::string& path);

// Reads single tensors without loading the whole file. The header is strictly validated when the
// file is opened: an invalid file causes a FormatError naming the file and the first rule that it
// breaks, and never uses more memory than a few times its size.
class SafetensorsReader {
 public:
  // Throws CheckpointError if the file cannot be read, FormatError if it is not valid.
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;

  // Names in the file and their aliases, sorted.
  std::vector<std::string> names() const;
  const StringMap& metadata() const;
  // Maps further names of tied weights to the names under which they were written.
  StringMap aliases() const;
  bool contains(const std::string& name) const;
  // The format's name of the dtype ("F32"). dtype and shape throw FormatError if the name is
  // unknown.
  std::string dtype(const std::string& name) const;
  std::vector<int64_t> shape(const std::string& name) const;

  // A new CPU tensor with the file's dtype and shape. Throws FormatError if the name is unknown or
  // LibTorch has no such dtype (F4, F6_*).
  at::Tensor tensor(const std::string& name) const;

  // Reads into a tensor of the same shape on any device, converting the dtype if it differs. A
  // contiguous CPU tensor of the file's dtype is filled directly from the file. Not recorded by
  // autograd. Throws FormatError if the name is unknown or the shape differs.
  void read_into(const std::string& name, const at::Tensor& target) const;

  // Reads elements [begin, begin + target.numel()) of the row-major flattened tensor, and no other
  // bytes, into a 1-D tensor on any device; conversion and speed are those of read_into. Throws
  // FormatError if the name is unknown, std::invalid_argument if the range exceeds the tensor or
  // the target is not 1-D.
  void read_range(const std::string& name, int64_t begin, const at::Tensor& target) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The format's name of a dtype ("F32"). Throws FormatError if it has none.
std::string safetensors_dtype(at::ScalarType type);

}  // namespace muster
