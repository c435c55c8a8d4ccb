// Follows the order of operations of torch/nn/utils/clip_grad.py, so that results are bit-identical
// to Python's.
#include "muster/optim/clip_grad.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/ForeachUtils.h>
#include <torch/types.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/distinct_tensors.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Tied weights count once, as in Python's parameters().
std::vector<at::Tensor> parameter_gradients(at::TensorList parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : distinct(parameters)) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

// Calls use(list) for the tensors of each device and dtype, in Python's order, because Python calls
// the same function.
template <typename Use>
void for_each_kind(at::TensorList tensors, Use use) {
  if (tensors.empty()) return;
  bool alike = true;
  for (const at::Tensor& tensor : tensors) {
    alike &=
        tensor.device() == tensors[0].device() && tensor.scalar_type() == tensors[0].scalar_type();
  }
  if (alike) {
    use(tensors);
    return;
  }
  std::vector<std::optional<at::Tensor>> list(tensors.begin(), tensors.end());
  for (const auto& [key, lists] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype({list}, false)) {
    std::vector<at::Tensor> kind;
    for (const std::optional<at::Tensor>& tensor : lists.first[0]) kind.push_back(*tensor);
    use(kind);
  }
}

}  // namespace

at::Tensor get_total_norm(at::TensorList gradients, double norm_type) {
  const torch::NoGradGuard no_grad;
  if (gradients.empty()) return torch::tensor(0.0, at::kFloat);
  const at::Device device = gradients[0].device();
  std::vector<at::Tensor> norms;
  for_each_kind(gradients, [&](at::TensorList kind) {
    std::vector<at::Tensor> filled;
    if (std::isinf(norm_type)) {  // an empty tensor has no maximum
      for (const at::Tensor& gradient : kind) {
        if (gradient.numel() > 0) filled.push_back(gradient);
      }
      kind = filled;
    }
    if (kind.empty()) return;
    for (at::Tensor& norm : at::_foreach_norm(kind, norm_type)) {
      norms.push_back(norm.device() == device ? std::move(norm) : norm.to(device));
    }
  });
  if (norms.empty()) return torch::tensor(0.0, at::device(device).dtype(at::kFloat));
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

void clip_grads_with_norm_(at::TensorList parameters, double max_norm,
                           const at::Tensor& total_norm) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = parameter_gradients(parameters);
  if (gradients.empty()) return;
  // Python's max_norm / x is x.reciprocal() * max_norm, with the number as the second factor.
  const at::Tensor ratio =
      (total_norm + 1e-6).reciprocal().mul(at::native::wrapped_scalar_tensor(max_norm));
  const at::Tensor factor = at::clamp(ratio, std::nullopt, 1.0);
  for_each_kind(gradients,
                [&](at::TensorList kind) { at::_foreach_mul_(kind, factor.to(kind[0].device())); });
}

at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type,
                           bool error_if_nonfinite) {
  const at::Tensor norm = get_total_norm(parameter_gradients(parameters), norm_type);
  if (error_if_nonfinite && !std::isfinite(norm.item<double>())) {
    throw Error("the total norm of order " + std::to_string(norm_type) +
                " of the gradients is not finite, so they cannot be clipped; pass "
                "error_if_nonfinite = false to scale them anyway");
  }
  clip_grads_with_norm_(parameters, max_norm, norm);
  return norm;
}

void clip_grad_value_(at::TensorList parameters, double clip_value) {
  const torch::NoGradGuard no_grad;
  for_each_kind(parameter_gradients(parameters), [&](at::TensorList kind) {
    at::_foreach_clamp_min_(kind, -clip_value);
    at::_foreach_clamp_max_(kind, clip_value);
  });
}

}  // namespace muster
