// See module_device.h.
#include "memory/module_device.h"

#include <torch/types.h>

#include <vector>

#include "base/distinct_tensors.h"
#include "muster/memory/deferred_init.h"

namespace muster {
namespace {

// set_data replaces memory only between kinds of devices that LibTorch lists, unless the device's
// own library overrides this operator.
bool can_set_data(const at::Tensor& tensor, at::Device device) {
  const at::Tensor there = at::empty({0}, tensor.options().device(device).requires_grad(false));
  return at::_has_compatible_shallow_copy_type(tensor, there);
}

}  // namespace

void move_module(torch::nn::Module& module, at::Device device) {
  std::vector<at::Tensor> tensors = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer);
  std::erase_if(tensors, [device](const at::Tensor& tensor) { return tensor.device() == device; });
  if (tensors.empty() || can_set_data(tensors[0], device)) return module.to(device);
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& tensor : distinct(tensors)) assign_value(tensor, tensor.to(device));
}

}  // namespace muster
