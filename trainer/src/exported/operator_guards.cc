#include "exported/operator_guards.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "muster/base/errors.h"

namespace muster {
namespace {

// (input, weight, bias, running_mean, running_var, …): all but the first have one number for each channel.
void check_batch_norm(const torch::jit::Stack& arguments) {
  constexpr size_t kTensors = 5;
  const at::Tensor& input = arguments[0].toTensor();
  if (input.dim() < 2)
    throw Error("batch normalization of a tensor of " + std::to_string(input.dim()) +
                " dimensions");
  for (size_t i = 1; i < kTensors && i < arguments.size(); ++i) {
    if (!arguments[i].isTensor()) continue;  // None, or the next kind of argument
    const at::Tensor& numbers = arguments[i].toTensor();
    if (!numbers.defined() || (numbers.dim() == 1 && numbers.size(0) == input.size(1))) continue;
    throw Error("batch normalization of " + std::to_string(input.size(1)) +
                " channels with numbers of the shape " + c10::str(numbers.sizes()));
  }
}

// (v, g, dim): g has a number for each element of v's dimension, and as many dimensions.
void check_weight_norm(const torch::jit::Stack& arguments) {
  const at::Tensor &v = arguments[0].toTensor(), &g = arguments[1].toTensor();
  const int64_t dim = arguments[2].toInt();
  bool fits = v.dim() == g.dim() && dim >= 0 && dim < v.dim();
  for (int64_t i = 0; fits && i < v.dim(); ++i) fits = g.size(i) == (i == dim ? v.size(i) : 1);
  if (fits) return;
  throw Error("weight normalization over dimension " + std::to_string(dim) + " of " +
              c10::str(v.sizes()) + " with norms of the shape " + c10::str(g.sizes()));
}

constexpr std::pair<std::string_view, OperatorGuard> kGuards[] = {
    {"_native_batch_norm_legit", check_batch_norm},
    {"_native_batch_norm_legit_functional", check_batch_norm},
    {"_native_batch_norm_legit_no_training", check_batch_norm},
    {"_weight_norm", check_weight_norm},
    {"_weight_norm_interface", check_weight_norm},
    {"native_batch_norm", check_batch_norm},
};

}  // namespace

OperatorGuard find_operator_guard(std::string_view name) {
  for (const auto& [guarded, guard] : kGuards) {
    if (guarded == name) return guard;
  }
  return nullptr;
}

}  // namespace muster
