// What prepare() has read of a model's parameters, to notice what changes afterwards. LibTorch tells
// no one when a flag, the dtype or the memory of a parameter changes, so every training forward
// compares: one pass over a flat list, without names, allocations or communication.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/gradient_hook.h"

namespace muster {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

class ParameterFacts {
 public:
  // How a parameter differs from what was read.
  struct Change {
    std::string what;     // "'head.weight' requires gradients"
    std::string refused;  // why training cannot follow it, and what to do; empty: it can
  };

  // `memory_is_fixed`: the parameters are views of memory that they must not leave (sharded ones).
  void read(const std::vector<NamedParameter>& parameters, bool memory_is_fixed);
  bool changed() const;
  // In the order of the list, which has the parameters that were read. Memory alone does not count
  // where it is not fixed.
  std::vector<Change> changes(const std::vector<NamedParameter>& parameters) const;

 private:
  using Hooked = decltype(torch::autograd::AutogradMeta::grad_accumulator_);
  // What the pass reads of each parameter.
  struct Fact {
    const c10::TensorImpl* tensor = nullptr;
    const c10::StorageImpl* storage = nullptr;
    uint64_t form = 0;  // dtype, shape, strides and place in the storage, mixed
    // Whose hooks see its gradients: LibTorch replaces it when the dtype changes, even for a while.
    Hooked hooked{GradAccumulator()};
    bool trains = false;
  };
  struct Details {
    at::ScalarType dtype;
    at::Device device;
    std::vector<int64_t> sizes, strides;
  };

  static uint64_t form_of(const c10::TensorImpl& tensor);
  bool is_as_read(const Fact& fact) const;
  Change change_of(const NamedParameter& parameter, const Fact& fact, const Details& details) const;

  std::vector<Fact> facts_;
  std::vector<Details> details_;
  bool memory_is_fixed_ = false;
};

}  // namespace muster
