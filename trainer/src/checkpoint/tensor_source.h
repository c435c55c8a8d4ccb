// Named tensors that are read when they are asked for, so that loading a model never holds a second
// copy of it: from files, checkpoints, or memory. One thread at a time.
#pragma once

#include <torch/torch.h>

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
  // A CPU tensor of the caller's own. Throws FormatError when there is none of that name.
  virtual at::Tensor read(const std::string& name) const = 0;
  // Into a tensor of the same shape, on any device and of any dtype. Not recorded by autograd.
  virtual void read_into(const std::string& name, const at::Tensor& target) const = 0;
  // Elements [begin, begin + target.numel()) of the row-major flattened tensor into a 1-D target on
  // any device and of any dtype; a 0-d tensor has one element. Reads those only, where the source
  // can. Not recorded by autograd. Throws FormatError when there is none of that name,
  // std::invalid_argument when the range leaves the tensor or the target is not 1-D.
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

// The part of a tensor that its receiver wants.
struct TensorRange {
  int64_t begin = 0;  // elements [begin, begin + count) of the row-major flattened tensor
  int64_t count = 0;
  std::vector<int64_t> shape;  // that the whole tensor must have
};
using RangeMap = std::map<std::string, TensorRange>;

// Another source, in which the tensors that `ranges` names are 1-D and hold these ranges only; the
// others are as they are. What restores whole tensors thereby restores parts of them: find says
// shape {count}. `base` must outlive this. A range may name a tensor that the base does not have.
class RangeSource : public TensorSource {
 public:
  // Throws CheckpointError that lists every tensor of the base that has another shape than its
  // range says, with `where` in front; std::invalid_argument for a range that leaves its shape.
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

// Everything of a source that is small, or that its receiver keeps.
TensorMap read_tensors(const TensorSource& source);

}  // namespace muster
