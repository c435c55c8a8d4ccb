// The state of LibTorch's modules as named tensors, so that it goes into safetensors files.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>

#include "checkpoint/tensor_source.h"
#include "muster/checkpoint/safetensors.h"

namespace muster {

// Parameters and buffers by name, sharing the module's memory. Throws std::invalid_argument if a
// parameter and a buffer have the same name, which LibTorch allows.
TensorMap module_tensors(torch::nn::Module& module);

// Reads saved tensors into the module's own, one at a time. Throws CheckpointError, prefixed with
// `where`, listing every tensor that is missing, unknown or of a different shape; the module is
// then unchanged.
void restore_module(torch::nn::Module& module, const TensorSource& saved, const std::string& where);
void restore_module(torch::nn::Module& module, const TensorMap& saved, const std::string& where);
// The same for tensors that represent a module's.
void restore_tensors(const TensorMap& own, const TensorSource& saved, const std::string& where);

// How often load_model has replaced a module's tensors in this process.
int64_t module_loads();
void count_module_load();

}  // namespace muster
