// Activation checkpointing: a segment of the model saves only its inputs in forward and is
// recomputed in backward. Trades the compute of one more forward for memory.
//
//   at::Tensor forward(at::Tensor x) {
//     for (auto& block : blocks) x = muster::checkpoint(block, x);
//     return head(x);
//   }
//
// The recomputation uses the random numbers and autocast state of the first run, so losses and
// gradients are bit-identical to those without checkpointing. Side effects of the segment happen
// twice: BatchNorm's running means see every batch twice, as in Python.
//
// Source: torch/utils/checkpoint.py, the reentrant variant (use_reentrant=True): the segment's
// backward is a nested backward pass. Differences:
//   - Parameters of the segment get gradients even if no input requires one (Python warns and
//     leaves them without). Every floating-point output therefore requires a gradient while
//     gradients are enabled, even if nothing in the segment does.
//   - The first run does not put cast weights into autocast's cache, where they would use memory
//     until the end of the autocast region.
//   - create_graph throws instead of returning gradients without history.
//
// Limits of the reentrant variant: gradients must be computed by backward() over all leaves
// (torch::autograd::grad, or backward with `inputs`, throws). A leaf (a parameter) that the segment
// reads without taking it as an input still gets its gradient; a captured tensor that is not a leaf
// causes "backward through the graph a second time" or a second pass over its history, so pass it
// as an input. fn must do the same in both runs.
//
// Distributed: DataParallel reduces the parameters of a segment that runs once per step as usual.
// If a parameter has several uses, one of them in a checkpointed segment (tied weights, a segment
// called twice), c10d's Reducer sees its gradient become ready twice and throws ("mark a variable
// ready only once"): set DataParallelOptions::static_graph. Without static_graph,
// find_unused_parameters does not see into a checkpointed segment, treats its parameters as unused,
// and throws the same error. Neither applies under sharding: the recomputation unshards parameters
// on first use as in any forward, and gradient hooks run in the nested backward.
//
// Training thread. Not collective.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/values/nested.h"

namespace muster {

struct ActivationCheckpointOptions {
  // Saves the states of the default generators of the CPU (5 KiB) and of the inputs' devices, so
  // that dropout draws the same masks in the recomputation, and restores the generators after it.
  // Turn it off for segments without random numbers.
  bool preserve_rng_state = true;
};

namespace activation_checkpoint_detail {

// A segment of the model as a function of flat lists of tensors.
using Part = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// Runs the part. With gradients enabled, its outputs belong to an autograd node that reruns it in
// backward. Undefined tensors keep their positions in both lists.
std::vector<at::Tensor> run_part(Part part, const std::vector<at::Tensor>& inputs,
                                 const ActivationCheckpointOptions& options);

template <typename T>
void append_tensors(const T& value, std::vector<at::Tensor>& tensors) {
  if constexpr (Nested<T>) {
    for (at::Tensor& tensor : flatten_tensors(value)) tensors.push_back(std::move(tensor));
  }
}

// The value without its tensors; a value that holds none is copied.
template <typename T>
T structure_of(const T& value) {
  if constexpr (Nested<T>) {
    return map_tensors(value, [](const at::Tensor&) { return at::Tensor(); });
  } else {
    return value;
  }
}

// A value of that structure, filled with the tensors from `next` on.
template <typename T>
T take_tensors(const T& structure, const std::vector<at::Tensor>& tensors, size_t& next) {
  if constexpr (Nested<T>) {
    T value = structure;
    visit_tensors(value, [&](at::Tensor& tensor) { tensor = tensors.at(next++); });
    return value;
  } else {
    return structure;
  }
}

// Modules are called by their forward: std::invoke cannot call a Sequential.
template <typename F, typename... Inputs>
auto call(F& fn, const Inputs&... inputs) {
  if constexpr (requires { fn->forward(inputs...); }) {
    return fn->forward(inputs...);
  } else {
    return std::invoke(fn, inputs...);
  }
}

}  // namespace activation_checkpoint_detail

// Returns fn(inputs…), which is recomputed in backward.
//
// fn: a module (holder or shared_ptr; its forward is called) or any callable that can be called
// repeatedly with the inputs. A copy is kept until the graph is freed. inputs: Nested values
// (muster/values/nested.h), whose tensors gradients flow through, and anything else that can be
// copied. Only the tensors are saved, as autograd saves any node's inputs: changing one in place
// before backward() makes backward() throw. Returns fn's result, a Nested value.
//
// Without gradients (torch::NoGradGuard) it just calls fn(inputs…). Exceptions of fn propagate from
// either run; generator and autocast states are restored. backward() throws muster::Error under
// torch::autograd::grad, with create_graph, and if the recomputation returns a different number of
// tensors.
template <typename F, typename... Inputs>
auto checkpoint(const ActivationCheckpointOptions& options, F&& fn, const Inputs&... inputs) {
  namespace detail = activation_checkpoint_detail;
  using Result = decltype(detail::call(std::declval<std::decay_t<F>&>(), inputs...));
  static_assert(Nested<Result>,
                "muster::checkpoint: fn must return tensors, or a value that holds "
                "them (muster/values/nested.h)");
  std::vector<at::Tensor> tensors;
  (detail::append_tensors(inputs, tensors), ...);

  // Filled by the first run only: the recomputation does not need the structure.
  auto structure = std::make_shared<std::optional<Result>>();
  detail::Part part =
      [fn = std::decay_t<F>(std::forward<F>(fn)),
       inputs = std::make_tuple(detail::structure_of(inputs)...),
       wanted = std::weak_ptr(structure)](const std::vector<at::Tensor>& values) mutable {
        size_t next = 0;
        // Braces evaluate left to right, so that the inputs take their tensors in order.
        auto arguments = std::apply(
            [&](const auto&... each) {
              return std::tuple<std::decay_t<decltype(each)>...>{
                  detail::take_tensors(each, values, next)...};
            },
            inputs);
        Result result = std::apply(
            [&fn](const auto&... each) -> Result { return detail::call(fn, each...); }, arguments);
        std::vector<at::Tensor> outputs = flatten_tensors(result);
        if (const auto slot = wanted.lock()) *slot = detail::structure_of(result);
        return outputs;
      };
  std::vector<at::Tensor> outputs = detail::run_part(std::move(part), tensors, options);
  return with_tensors(**structure, std::move(outputs));
}

template <typename F, typename... Inputs>
requires(!std::is_same_v<std::remove_cvref_t<F>, ActivationCheckpointOptions>) auto checkpoint(
    F&& fn, const Inputs&... inputs) {
  return checkpoint(ActivationCheckpointOptions{}, std::forward<F>(fn), inputs...);
}

}  // namespace muster
