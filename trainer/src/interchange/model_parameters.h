// A module's tensors as Python names and orders them.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer_tensors.h"

namespace muster {

// Parameters and buffers in the order of Python's state_dict(). Throws std::invalid_argument if two have the same name.
std::vector<std::pair<std::string, at::Tensor>> named_state(torch::nn::Module& module);

// Tied parameters under their first name.
ParameterNames parameter_names(const torch::nn::Module& module);

}  // namespace muster
