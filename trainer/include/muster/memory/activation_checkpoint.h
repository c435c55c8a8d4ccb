// Activation checkpointing: a part of the model keeps only its inputs in the forward pass and is
// computed a second time in the backward pass. Memory for one more forward.
//
//   at::Tensor forward(at::Tensor x) {
//     for (auto& block : blocks) x = muster::checkpoint(block, x);
//     return head(x);
//   }
//
// The second run gets the random numbers and the autocast state of the first, so that losses and
// gradients equal those without checkpointing bit by bit. What the part changes besides its outputs
// is changed twice: the running means of a BatchNorm take every batch in twice, as with Python's.
//
// Source: torch/utils/checkpoint.py, the re-entrant form (use_reentrant=True): the part's backward
// is a backward pass of its own inside the outer one. Differences:
//   - Parameters of the part get gradients also when no input requires one (Python's then warns and
//     leaves them without). So every floating-point output requires a gradient while gradients are
//     enabled, even where nothing in the part does.
//   - In the first run casts of weights are not kept in autocast's cache, where they would use
//     memory until its region ends.
//   - create_graph is refused instead of giving gradients without history.
//
// Limits that follow from the form: the gradients must be asked for by backward() over all leaves
// (torch::autograd::grad, or backward with `inputs`, throws); a tensor that the part reads without
// having it as an input gets its gradient too when it is a leaf (a parameter), and an error
// "backward through the graph a second time" or a second pass over its history when it is not: pass
// it as an input. fn must do the same in both runs.
//
// Distributed: parameters of a part that is used once per step are reduced as usual by
// DataParallel. Where a parameter has several uses, of which one is in a checkpointed part (tied
// weights, a part that is called twice), c10d's Reducer would see its gradient ready twice and
// throws ("mark a variable ready only once"): set DataParallelOptions::static_graph.
// find_unused_parameters without static_graph does not see into a checkpointed part, takes its
// parameters for unused, and throws the same. Under sharding neither matters: parameters whose
// storage is free are gathered at their first use in the second run as in any forward, and hooks on
// gradients run in the inner backward.
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
  // The states of the CPU's default generator (5 KiB) and of those of the devices that the inputs
  // are on are kept, so that dropout draws the same masks in the second run; the generators stand
  // afterwards where they stood before it. Turn it off for parts without random numbers.
  bool preserve_rng_state = true;
};

namespace activation_checkpoint_detail {

// A part of the model over flat lists of tensors.
using Part = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// Runs the part; with gradients enabled its outputs are those of an autograd node that runs it
// again. Undefined tensors keep their place in both lists.
std::vector<at::Tensor> run_part(Part part, const std::vector<at::Tensor>& inputs,
                                 const ActivationCheckpointOptions& options);

template <typename T>
void append_tensors(const T& value, std::vector<at::Tensor>& tensors) {
  if constexpr (Nested<T>) {
    for (at::Tensor& tensor : flatten_tensors(value)) tensors.push_back(std::move(tensor));
  }
}

// The value without its tensors; what holds none is carried along.
template <typename T>
T structure_of(const T& value) {
  if constexpr (Nested<T>) {
    return map_tensors(value, [](const at::Tensor&) { return at::Tensor(); });
  } else {
    return value;
  }
}

// A value of that structure with the next of these tensors.
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

// Modules by their forward: Sequential's has a type that std::invoke does not find.
template <typename F, typename... Inputs>
auto call(F& fn, const Inputs&... inputs) {
  if constexpr (requires { fn->forward(inputs...); }) {
    return fn->forward(inputs...);
  } else {
    return std::invoke(fn, inputs...);
  }
}

}  // namespace activation_checkpoint_detail

// fn(inputs…), computed again in the backward pass.
//
// fn: a module (holder or shared_ptr, called by its forward) or anything else that can be called
// with the inputs, several times. A copy of it is kept until the graph is freed. inputs: Nested
// values (muster/values/nested.h), through whose tensors gradients flow, and anything else that can be
// copied. Only the tensors are saved, as any node saves its inputs: changing one in place before
// backward() is an error there. Returns what fn returns, a Nested value.
//
// Without gradients (torch::NoGradGuard) it is just fn(inputs…). What fn throws in either run
// passes through; the states of the generators and of autocast are put back. Errors in backward():
// muster::Error for torch::autograd::grad, for create_graph, and when the second run returns
// another number of tensors than the first.
template <typename F, typename... Inputs>
auto checkpoint(const ActivationCheckpointOptions& options, F&& fn, const Inputs&... inputs) {
  namespace detail = activation_checkpoint_detail;
  using Result = decltype(detail::call(std::declval<std::decay_t<F>&>(), inputs...));
  static_assert(Nested<Result>,
                "muster::checkpoint: fn must return tensors, or a value that holds "
                "them (muster/values/nested.h)");
  std::vector<at::Tensor> tensors;
  (detail::append_tensors(inputs, tensors), ...);

  // Filled by the first run only: by the second one nobody waits for the structure any more.
  auto structure = std::make_shared<std::optional<Result>>();
  detail::Part part =
      [fn = std::decay_t<F>(std::forward<F>(fn)),
       inputs = std::make_tuple(detail::structure_of(inputs)...),
       wanted = std::weak_ptr(structure)](const std::vector<at::Tensor>& values) mutable {
        size_t next = 0;
        // Braces: the order of the inputs is that of the tensors.
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
