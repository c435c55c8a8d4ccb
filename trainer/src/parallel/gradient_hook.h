// A call for each gradient that autograd has added to a parameter.
#pragma once

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>

namespace muster {

// A pointer whose kind differs between LibTorch's releases.
using GradAccumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

// Calls `has_come` after each gradient, on the thread that backward runs on; what it throws leaves
// backward(). Lasts as long as the result is kept; the parameter keeps it no longer than its
// graphs.
[[nodiscard]] inline GradAccumulator after_each_gradient(const at::Tensor& parameter,
                                                         std::function<void()> has_come) {
  using torch::autograd::variable_list;
  GradAccumulator accumulator = torch::autograd::impl::grad_accumulator(parameter);
  accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [has_come = std::move(has_come)](const variable_list& outputs, const variable_list&) {
        has_come();
        return outputs;
      }));
  return accumulator;
}

}  // namespace muster
