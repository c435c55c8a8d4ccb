// Deferred initialisation: a module is built without memory for its tensors, and gets their values
// later, one tensor at a time. For models that do not fit where they are built.
//
//   auto net = muster::deferred_init([&] { return Net(options); });  // shapes and names, no memory
//   net.materialize([&](const at::Tensor& tensor, at::Tensor value) { … keep what you need … });
//   muster::materialize_in_place(net, device);                       // or: an ordinary module
//
// How: inside deferred_init every operator of LibTorch that makes a tensor without being told a
// device makes it on the device "meta" (shape, dtype, strides; no values), and every operator on
// such tensors is written down. materialize runs what was written down in the same order on the
// CPU, with the random numbers that building it directly would have drawn: values are equal bit by
// bit. A value lives from the operator that first writes it to the last one that needs it, so a
// weight that the constructor initialises at once, and perhaps again at its end, is in memory only
// for the moment of each.
//
// What a constructor may do: everything with operators: torch::nn modules, torch::nn::init,
// in-place operators, views (weight.narrow(…), weight[i]), tied parameters, torch::tensor({…}),
// set_data, set_requires_grad, generators of its own. What it may not do:
//   - read a value (item(), equal(), nonzero()): throws muster::Error that names the operator
//   - read or write memory beside the operators (data_ptr, accessor): there is nothing behind it
// Real at once are: tensors of numbers (torch::tensor), torch::from_blob, and what a factory makes
// that is told a device; but random numbers on the CPU are always deferred. Real tensors may be
// mixed with deferred ones. What an operator reads of a real one is copied (up to 1 MiB) or must
// not be changed before materialize; a real one that an operator writes with what is deferred, or
// with random numbers, has its values after materialize only. The device of a deferred tensor is
// meta: code that follows it (torch::zeros(shape, weight.options())) is deferred as well.
//
// Registered parameters and buffers are what gets a value. A deferred tensor that is kept without
// being registered stays without one: a warning (TORCH_WARN) says so.
//
// Source of the idea: torchdistX deferred_init (pytorch.org/torchdistx) and FSDP's
// param_init_fn; the implementation is a boxed fallback on a dispatch key.
// All functions: the thread that calls them; not collective.
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
  std::string name;   // as named_parameters() and named_buffers() say it
  at::Tensor tensor;  // the module's own: on meta, or real where it was made on a device
  bool is_buffer = false;
};

// What materialize calls for each parameter or buffer, once, when its value is complete. `tensor`:
// the module's own. `value`: on the CPU, of the same shape, strides and dtype, without gradient;
// belongs to the callee. Its memory goes when the callee and the remaining operators let it go.
// Tensors that share memory get values that share memory. A real tensor (tensor.is_meta() is false:
// a BatchNorm's counter, made by torch::tensor(0)) comes with itself. The callee runs without
// gradients enabled and must draw no random numbers; what it throws passes through materialize.
using PlaceValue = std::function<void(const at::Tensor& tensor, at::Tensor value)>;

namespace deferred_detail {

class Tape;  // the operators, in order

// Runs `build` with the operators deferred; it returns the module.
std::shared_ptr<Tape> record(const std::function<torch::nn::Module&()>& build);
void replay(Tape& tape, const PlaceValue& place);
const std::vector<DeferredTensor>& tensors_of(const Tape& tape);
bool is_replayed(const Tape& tape);

}  // namespace deferred_detail

// A module without values, and how to make them. Copies share both.
template <typename Holder>
class Deferred {
 public:
  // Made by deferred_init.
  Deferred(Holder module, std::shared_ptr<deferred_detail::Tape> tape)
      : module_(std::move(module)), tape_(std::move(tape)) {}

  // The module: names and shapes; also to change it (train(), to(dtype) is not deferred).
  auto* operator->() { return &*module_; }
  auto& operator*() { return *module_; }
  Holder& module() { return module_; }

  // Each parameter, then each buffer; tied ones once, under the first name.
  const std::vector<DeferredTensor>& tensors() const { return deferred_detail::tensors_of(*tape_); }

  // Runs the operators and hands out the values, in the order in which they become complete. The
  // generators (the CPU's default one and any that the constructor used) are set to where they
  // stood at deferred_init and stand afterwards where direct building would have left them,
  // whatever was drawn in between. To be called once; throws muster::Error the second time, and
  // when a real tensor that the operators need was changed since. After an exception the values
  // handed out so far are all there will be.
  void materialize(const PlaceValue& place) { deferred_detail::replay(*tape_, place); }
  bool materialized() const { return deferred_detail::is_replayed(*tape_); }

 private:
  Holder module_;
  std::shared_ptr<deferred_detail::Tape> tape_;
};

// build() returns a module: a holder (TORCH_MODULE) or a shared_ptr. What it throws passes through.
// Throws muster::Error as said above, and inside of another deferred_init.
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

// Lets a tensor of a deferred module be `value`, under the same handle: memory, device, strides.
// What set_data does between devices, and refuses for a tensor on meta. requires_grad stays; the
// shape and dtype must be equal, else std::invalid_argument.
void assign_value(const at::Tensor& tensor, const at::Tensor& value);

// For materialize: gives the module's own tensors their values on the device, under the same
// handles.
inline PlaceValue place_on(at::Device device) {
  return [device](const at::Tensor& tensor, const at::Tensor& value) {
    if (!tensor.is_same(value) || tensor.device() != device) assign_value(tensor, value.to(device));
  };
}

// Gives every parameter and buffer its value on the device, under the same handles: an ordinary
// module afterwards, equal to one built directly and moved there. Holds on the CPU no more than
// materialize does. On a device, tensors that share memory without being the same (views) become
// separate ones. Errors as materialize.
template <typename Holder>
Holder& materialize_in_place(Deferred<Holder>& deferred, at::Device device = at::kCPU) {
  deferred.materialize(place_on(device));
  return deferred.module();
}

}  // namespace muster
