// Named tensors that are read when they are asked for, so that loading a model never holds a second
// copy of it: from files, checkpoints, or memory. One thread at a time.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/safetensors.h"

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
};

// Tensors in memory.
class MapSource : public TensorSource {
 public:
  explicit MapSource(TensorMap tensors) : tensors_(std::move(tensors)) {}
  std::vector<std::string> names() const override;
  std::optional<TensorDescription> find(const std::string& name) const override;
  at::Tensor read(const std::string& name) const override;
  void read_into(const std::string& name, const at::Tensor& target) const override;

 private:
  const at::Tensor& at(const std::string& name) const;

  TensorMap tensors_;
};

// Everything of a source that is small, or that its receiver keeps.
TensorMap read_tensors(const TensorSource& source);

}  // namespace muster
