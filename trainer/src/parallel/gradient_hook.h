// A hook that runs after autograd accumulates a gradient into a parameter.
#pragma once

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <utility>

namespace muster {

// A pointer type that differs between LibTorch releases.
using GradAccumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

// Calls `has_come` after each gradient, on backward's thread; its exceptions propagate out of
// backward(). Active as long as the result is kept; the parameter itself does not keep it beyond
// its graphs.
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
