// Deferred initialization: a module is built without memory for its tensors and gets their values
// later, one tensor at a time. For models that do not fit where they are built.
//
//   auto net = muster::deferred_init([&] { return Net(options); });  // shapes and names, no memory
//   net.materialize([&](const at::Tensor& tensor, at::Tensor value) { … keep what you need … });
//   muster::materialize_in_place(net, device);                       // or: an ordinary module
//
// How: inside deferred_init, every LibTorch operator that creates a tensor without an explicit
// device creates it on the device "meta" (shape, dtype, strides; no values), and every operator on
// such tensors is recorded. materialize replays the recorded operators in order on the CPU, with
// the random numbers that direct construction would have drawn, so values are bit-identical. A
// value lives from the first operator that writes it to the last that needs it: a weight that the
// constructor initializes right away, and perhaps again at its end, is in memory only during those
// operators.
//
// What a constructor may do: anything done with operators: torch::nn modules, torch::nn::init,
// in-place operators, views (weight.narrow(…), weight[i]), tied parameters, torch::tensor({…}),
// set_data, set_requires_grad, its own generators. What it may not do:
//   - read a value (item(), equal(), nonzero()): throws muster::Error naming the operator
//   - access memory directly (data_ptr, accessor): there is none behind the tensor
// Not deferred: tensors of numbers (torch::tensor), torch::from_blob, and results of factories with
// an explicit device; random numbers on the CPU are always deferred. Such real tensors may be mixed
// with deferred ones. The data that an operator reads from a real tensor is copied (up to 1 MiB) or
// must not change before materialize; a real tensor that an operator writes with deferred data or
// random numbers has its values only after materialize. The device of a deferred tensor is meta, so
// tensors created on it (torch::zeros(shape, weight.options())) are deferred as well.
//
// Only registered parameters and buffers get values. A deferred tensor that the module holds
// without registering it never gets one, which a warning (TORCH_WARN) reports.
//
// Source of the idea: torchdistX deferred_init (pytorch.org/torchdistx) and FSDP's
// param_init_fn; the implementation is a boxed fallback on a dispatch key.
// All functions run on the calling thread; none is collective.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/errors.h"

namespace muster {

// A parameter or buffer of a deferred module.
struct DeferredTensor {
  std::string name;   // as in named_parameters() and named_buffers()
  at::Tensor tensor;  // the module's own: on meta, or real if it was not deferred
  bool is_buffer = false;
};

// Called by materialize once for each parameter or buffer, when its value is complete. `tensor`:
// the module's own. `value`: on the CPU, with the same shape, strides and dtype, without gradient;
// owned by the callee, and freed when neither the callee nor the remaining operators hold it.
// Tensors that share memory get values that share memory. For a real tensor (tensor.is_meta() is
// false, such as BatchNorm's counter from torch::tensor(0)), `value` is the tensor itself. Runs
// with gradients disabled and must not draw random numbers; its exceptions propagate out of
// materialize.
using PlaceValue = std::function<void(const at::Tensor& tensor, at::Tensor value)>;

namespace deferred_detail {

class Tape;  // the operators, in order

// Calls `build`, which returns the module, with operators deferred.
std::shared_ptr<Tape> record(const std::function<torch::nn::Module&()>& build);
void replay(Tape& tape, const PlaceValue& place);
const std::vector<DeferredTensor>& tensors_of(const Tape& tape);
bool is_replayed(const Tape& tape);

}  // namespace deferred_detail

// A module without values, and the recording that computes them. Copies share both.
template <typename Holder>
class Deferred {
 public:
  // Use deferred_init instead.
  Deferred(Holder module, std::shared_ptr<deferred_detail::Tape> tape)
      : module_(std::move(module)), tape_(std::move(tape)) {}

  // The module, with names and shapes only. It may be changed (train(); to(dtype) is not deferred).
  auto* operator->() { return &*module_; }
  auto& operator*() { return *module_; }
  Holder& module() { return module_; }

  // All parameters, then all buffers; tied ones once, under their first name.
  const std::vector<DeferredTensor>& tensors() const { return deferred_detail::tensors_of(*tape_); }

  // Replays the operators and passes on the values in the order in which they become complete. The
  // generators (the CPU's default one and any that the constructor used) start from their state at
  // deferred_init and end in the state that direct construction would have left, whatever was drawn
  // in between. Call it once: throws muster::Error the second time, and if a real tensor that the
  // operators need was changed since. After an exception no further values follow.
  void materialize(const PlaceValue& place) { deferred_detail::replay(*tape_, place); }
  bool materialized() const { return deferred_detail::is_replayed(*tape_); }

 private:
  Holder module_;
  std::shared_ptr<deferred_detail::Tape> tape_;
};

// build() returns a module: a holder (TORCH_MODULE) or a shared_ptr. Its exceptions propagate.
// Throws muster::Error if build() reads a deferred value, and inside another deferred_init.
template <typename Build>
auto deferred_init(Build&& build) {
  using Holder = std::decay_t<std::invoke_result_t<Build&>>;
  std::optional<Holder> module;
  auto tape = deferred_detail::record([&]() -> torch::nn::Module& {
    module.emplace(build());
    return **module;
  });
  return Deferred<Holder>(std::move(*module), std::move(tape));
}

// Makes a tensor of a deferred module take over `value`'s memory, device and strides, under the
// same handle: like set_data, which throws for a tensor on meta. requires_grad is unchanged; shape
// and dtype must be equal, else std::invalid_argument.
void assign_value(const at::Tensor& tensor, const at::Tensor& value);

// For materialize: moves each value to the device and assigns it to the module's own tensor.
inline PlaceValue place_on(at::Device device) {
  return [device](const at::Tensor& tensor, const at::Tensor& value) {
    if (!tensor.is_same(value) || tensor.device() != device) assign_value(tensor, value.to(device));
  };
}

// Gives every parameter and buffer its value on the device, under the same handles. The result is
// an ordinary module, equal to one built directly and moved there. Uses no more CPU memory than
// materialize. On a device other than the CPU, distinct tensors that share memory (views) become
// separate ones. Throws as materialize does.
template <typename Holder>
Holder& materialize_in_place(Deferred<Holder>& deferred, at::Device device = at::kCPU) {
  deferred.materialize(place_on(device));
  return deferred.module();
}

}  // namespace muster
