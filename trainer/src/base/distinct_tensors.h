// Removes duplicate tensors from a list, keeping the first occurrence. LibTorch's
// Module::parameters() lists a tied weight under each of its names, PyTorch's only once; code that
// counts, scales or steps parameters must see it once. For files that use LibTorch.
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
