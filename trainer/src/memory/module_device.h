// Moves modules to a device, of whatever kind.
#pragma once

#include <torch/nn/module.h>

namespace muster {

// Like module.to(device), which throws for a kind of device that LibTorch does not know: there the
// tensors take over the memory of their copies under the same handles.
void move_module(torch::nn::Module& module, at::Device device);

}  // namespace muster
