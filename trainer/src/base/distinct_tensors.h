// Each tensor of a list once, where it comes first. Module::parameters() of LibTorch lists a tied
// weight once for each of its names, PyTorch's once: whatever counts, scales or steps must see it
// once. For files that use LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_set>
#include <vector>

namespace muster {

inline std::vector<at::Tensor> distinct(at::TensorList tensors) {
  std::unordered_set<c10::TensorImpl*> seen;
  std::vector<at::Tensor> once;
  once.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) once.push_back(tensor);
  }
  return once;
}

}  // namespace muster
