// Named tensors from files, checkpoints or memory that are read on demand, so that loading a model
// never needs a second copy of it. One thread at a time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

struct TensorDescription {
  std::string dtype;  // as in safetensors
  std::vector<int64_t> shape;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::vector<std::string> names() const = 0;  // sorted
  virtual std::optional<TensorDescription> find(const std::string& name) const = 0;
  // A new CPU tensor. Throws FormatError if there is no tensor of that name.
  virtual at::Tensor read(const std::string& name) const = 0;
  // Reads into a tensor of the same shape, on any device and of any dtype. Not recorded by
  // autograd.
  virtual void read_into(const std::string& name, const at::Tensor& target) const = 0;
  // Reads elements [begin, begin + target.numel()) of the row-major flattened tensor into a 1-D
  // target on any device and of any dtype; a 0-d tensor has one element. Reads only those bytes if
  // the source can. Not recorded by autograd. Throws FormatError if there is no tensor of that
  // name, std::invalid_argument if the range exceeds the tensor or the target is not 1-D.
  virtual void read_range(const std::string& name, int64_t begin,
                          const at::Tensor& target) const = 0;
};

// Tensors in memory.
class MapSource : public TensorSource {
 public:
  explicit MapSource(TensorMap tensors) : tensors_(std::move(tensors)) {}
  std::vector<std::string> names() const override;
  std::optional<TensorDescription> find(const std::string& name) const override;
  at::Tensor read(const std::string& name) const override;
  void read_into(const std::string& name, const at::Tensor& target) const override;
  void read_range(const std::string& name, int64_t begin, const at::Tensor& target) const override;

 private:
  const at::Tensor& at(const std::string& name) const;

  TensorMap tensors_;
};

// A requested range of a tensor.
struct TensorRange {
  int64_t begin = 0;  // elements [begin, begin + count) of the row-major flattened tensor
  int64_t count = 0;
  std::vector<int64_t> shape;  // required of the whole tensor
};
using RangeMap = std::map<std::string, TensorRange>;

// A view of another source in which the tensors named in `ranges` are 1-D (find reports shape
// {count}) and hold only these ranges; others are unchanged. Code that restores whole tensors can
// thus restore shards. `base` must outlive this. A range may name a tensor that the base does not
// have.
class RangeSource : public TensorSource {
 public:
  // Throws CheckpointError, prefixed with `where`, listing every tensor of the base whose shape
  // differs from its range's; std::invalid_argument for a range that exceeds its shape.
  RangeSource(const TensorSource& base, RangeMap ranges, const std::string& where = "the source");
  std::vector<std::string> names() const override;
  std::optional<TensorDescription> find(const std::string& name) const override;
  at::Tensor read(const std::string& name) const override;
  void read_into(const std::string& name, const at::Tensor& target) const override;
  // `begin` counts within the range.
  void read_range(const std::string& name, int64_t begin, const at::Tensor& target) const override;

 private:
  const TensorSource& base_;
  RangeMap ranges_;
};

// Reads everything from a source; for small ones, or if the caller keeps the tensors.
TensorMap read_tensors(const TensorSource& source);

}  // namespace muster
