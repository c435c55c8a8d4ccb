// The state of optimizers as named tensors, so that it goes into safetensors files.
#pragma once

#include <torch/optim.h>

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "muster/checkpoint/safetensors.h"

namespace muster {

// Parameter names by tensor.
using ParameterNames = std::unordered_map<c10::TensorImpl*, std::string>;

// Keys "<field>/<parameter>" (exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer, square_avg,
// grad_avg, sum: the parameter's shape; step: int64, 0-d) and "lr", float64 [groups]. A parameter
// without a name is called "group.G.parameter.I". The keys are the same for torch::optim's classes
// and muster's own, so that a run can resume with either. Throws CheckpointError for optimizers
// other than muster's and torch's Adam, AdamW, SGD, RMSprop and Adagrad.
TensorMap optimizer_tensors(torch::optim::Optimizer& optimizer, const ParameterNames& names);

// The inverse: replaces the optimizer's state and learning rates, one tensor at a time. Parameters
// without saved state start fresh, as in Python. Throws CheckpointError if shapes or groups do not
// match.
void restore_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                       const TensorSource& saved);

// Whether the state of a parameter of this group can have these fields, and no other is needed for a
// step: another kind of optimizer's cannot, nor that of one with other options. False for an optimizer
// that cannot be saved.
bool takes_fields(torch::optim::Optimizer& optimizer, size_t group,
                  const std::vector<std::string>& fields);
// Restores the state of the parameters with these names alone. Other parameters and the learning
// rates stay as they are.
void restore_parameters(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                        const TensorSource& saved, const std::set<std::string>& which);

}  // namespace muster
