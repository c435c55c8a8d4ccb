// Limits on gradients. In place, without gradients of their own, any device; the same numbers, in
// the same order of operations, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_ in Python.
// Parameters without a gradient are passed over; one that is listed twice counts once, as
// Module::parameters() lists a tied weight under each of its names and Python's once. (The
// functions of these names in LibTorch return a double and so wait for the device.) Source:
// torch/nn/utils/clip_grad.py.
#pragma once

#include <torch/types.h>

namespace muster {

// The norm of all gradients as one vector, 0-d, on the device of the first; 0 without any. No host
// sync. norm_type: p of the p-norm; infinity gives the largest absolute value.
at::Tensor get_total_norm(at::TensorList gradients, double norm_type = 2.0);

// Scales the gradients down so that their total norm is at most max_norm; returns the norm that
// they had. No host sync unless error_if_nonfinite asks for muster::Error when the norm is infinite
// or NaN (the gradients are then unchanged); otherwise such a norm makes the gradients 0 or NaN.
at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false);

// The second half alone, for a norm that was computed elsewhere (over several ranks, for instance):
// gradients times min(1, max_norm / (total_norm + 1e-6)).
void clip_grads_with_norm_(at::TensorList parameters, double max_norm,
                           const at::Tensor& total_norm);

// Cuts every element of the gradients to [-clip_value, clip_value].
void clip_grad_value_(at::TensorList parameters, double clip_value);

}  // namespace muster
