// Gradient clipping: in place, not recorded by autograd, on any device; the same numbers, in the
// same order of operations, as Python's torch.nn.utils.clip_grad_norm_ and clip_grad_value_.
// Parameters without a gradient are skipped. One that is listed twice counts once:
// Module::parameters() lists a tied weight under each of its names, Python's lists it once.
// (LibTorch's functions of these names return a double, which forces a host sync.) Source:
// torch/nn/utils/clip_grad.py.
#pragma once

#include <torch/types.h>

namespace muster {

// The norm of all gradients taken as one vector: 0-d, on the device of the first; 0 if there are
// none. No host sync. norm_type: the p of the p-norm; infinity gives the largest absolute value.
at::Tensor get_total_norm(at::TensorList gradients, double norm_type = 2.0);

// Scales the gradients down so that their total norm is at most max_norm; returns the norm before
// clipping. With error_if_nonfinite, throws muster::Error if the norm is infinite or NaN (the
// gradients are then unchanged), which costs a host sync; without it there is none, and such a norm
// makes the gradients 0 or NaN.
at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false);

// The scaling alone, for a norm computed elsewhere (across ranks, for instance): multiplies the
// gradients by min(1, max_norm / (total_norm + 1e-6)).
void clip_grads_with_norm_(at::TensorList parameters, double max_norm,
                           const at::Tensor& total_norm);

// Clamps every gradient element to [-clip_value, clip_value].
void clip_grad_value_(at::TensorList parameters, double clip_value);

}  // namespace muster
