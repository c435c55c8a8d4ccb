// The autograd node of a checkpointed segment; see activation_checkpoint.h.
#include "muster/memory/activation_checkpoint.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <string>

#include "muster/base/errors.h"
#include "muster/device/random_state.h"

namespace muster::activation_checkpoint_detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The devices that the tensors are on, and the CPU.
std::vector<at::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Device> devices = {at::kCPU};
  for (const at::Tensor& tensor : tensors) {
    // meta has no generator, and autocast does not support it.
    if (!tensor.defined() || tensor.is_meta()) continue;
    if (std::find(devices.begin(), devices.end(), tensor.device()) == devices.end()) {
      devices.push_back(tensor.device());
    }
  }
  return devices;
}

// Saved states of the default generators; restore() sets them again.
class RandomStates {
 public:
  explicit RandomStates(const std::vector<at::Device>& devices) {
    for (const at::Device device : devices) states_.emplace_back(device, random_state(device));
  }
  void restore() const {
    for (const auto& [device, state] : states_) set_random_state(device, state);
  }

 private:
  std::vector<std::pair<at::Device, at::Tensor>> states_;
};

// Autocast's state on this thread.
class AutocastState {
 public:
  explicit AutocastState(const std::vector<at::Device>& devices)
      : cache_enabled_(at::autocast::is_autocast_cache_enabled()) {
    for (const at::Device device : devices) {
      kinds_.push_back({device.type(), at::autocast::is_autocast_enabled(device.type()),
                        at::autocast::get_autocast_dtype(device.type())});
    }
  }
  void restore() const {
    for (const Kind& kind : kinds_) {
      at::autocast::set_autocast_enabled(kind.type, kind.enabled);
      at::autocast::set_autocast_dtype(kind.type, kind.dtype);
    }
    at::autocast::set_autocast_cache_enabled(cache_enabled_);
  }

 private:
  struct Kind {
    at::DeviceType type;
    bool enabled;
    at::ScalarType dtype;
  };
  std::vector<Kind> kinds_;
  bool cache_enabled_;
};

// While it lives, autocast does not cache cast weights: they would stay until the autocast region
// ends, and older releases of LibTorch would reuse them, without history, at the weight's next use.
class NoCastCache {
 public:
  NoCastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoCastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCastCache(const NoCastCache&) = delete;
  NoCastCache& operator=(const NoCastCache&) = delete;

 private:
  bool before_;
};

// What a node saves in addition to its inputs.
struct Kept : torch::CustomClassHolder {
  Part part;
  std::vector<at::Device> devices;
  std::optional<RandomStates> random_states;
  std::optional<AutocastState> autocast;
  // The node itself has only the defined tensors; these are their indices among all.
  size_t inputs = 0, outputs = 0;
  std::vector<size_t> input_places, output_places;
};

// Restores the first run's environment for the recomputation, until the end of the scope.
class AsInForward {
 public:
  explicit AsInForward(const Kept& kept) : autocast_before_(kept.devices) {
    if (kept.random_states) {
      random_before_.emplace(kept.devices);
      kept.random_states->restore();
    }
    kept.autocast->restore();
    at::autocast::increment_nesting();
  }
  ~AsInForward() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    autocast_before_.restore();
    if (random_before_) random_before_->restore();
  }
  AsInForward(const AsInForward&) = delete;
  AsInForward& operator=(const AsInForward&) = delete;

 private:
  AutocastState autocast_before_;
  std::optional<RandomStates> random_before_;
};

void require_plain_backward() {
  if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
    throw Error(
        "muster::checkpoint: a checkpointed segment supports only backward() over all leaves; "
        "torch::autograd::grad and backward() with `inputs` would lose the gradients of its "
        "parameters. Call backward() and read grad(), or remove checkpoint()");
  }
  if (torch::GradMode::is_enabled()) {
    throw Error(
        "muster::checkpoint: backward() with create_graph needs second derivatives, which a "
        "checkpointed segment does not support. Remove checkpoint() from this segment");
  }
}

// The inputs as leaves of a separate graph.
std::vector<at::Tensor> as_leaves(const variable_list& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
  }
  return leaves;
}

std::vector<at::Tensor> spread(at::TensorList tensors, const std::vector<size_t>& places,
                               size_t count) {
  std::vector<at::Tensor> all(count);
  for (size_t i = 0; i < places.size(); ++i) all[places[i]] = tensors[i];
  return all;
}

std::vector<at::Tensor> defined_of(const std::vector<at::Tensor>& all,
                                   std::vector<size_t>& places) {
  std::vector<at::Tensor> defined;
  for (size_t place = 0; place < all.size(); ++place) {
    if (!all[place].defined()) continue;
    places.push_back(place);
    defined.push_back(all[place]);
  }
  return defined;
}

class CheckpointedPart : public torch::autograd::Function<CheckpointedPart> {
 public:
  // `anchor` requires a gradient, so that a node is created even if no input requires one.
  static variable_list forward(AutogradContext* context, const at::Tensor& /*anchor*/,
                               const c10::intrusive_ptr<Kept>& kept, at::TensorList inputs) {
    context->set_materialize_grads(false);
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->save_for_backward(inputs.vec());
    const NoCastCache no_cast_cache;
    const std::vector<at::Tensor> outputs =
        kept->part(spread(inputs, kept->input_places, kept->inputs));
    kept->outputs = outputs.size();
    variable_list own = defined_of(outputs, kept->output_places);
    // Detach: the segment may have returned an input, a view of one, or a parameter.
    for (at::Tensor& output : own) output = output.detach();
    return own;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    require_plain_backward();
    const auto kept =
        c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    const std::vector<at::Tensor> leaves = as_leaves(context->get_saved_variables());
    run_again(*kept, leaves, gradients);
    variable_list results(2);  // for the anchor and the saved state
    for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
    return results;
  }

 private:
  static void run_again(const Kept& kept, const std::vector<at::Tensor>& leaves,
                        const variable_list& gradients) {
    variable_list roots, root_gradients;
    {
      const AsInForward surroundings(kept);
      const at::AutoGradMode with_gradients(true);
      const std::vector<at::Tensor> outputs =
          kept.part(spread(leaves, kept.input_places, kept.inputs));
      if (outputs.size() != kept.outputs) {
        throw Error("muster::checkpoint: fn returned " + std::to_string(outputs.size()) +
                    " tensors when it was recomputed and " + std::to_string(kept.outputs) +
                    " in forward: it must do the same in both");
      }
      for (size_t i = 0; i < kept.output_places.size(); ++i) {
        const at::Tensor& output = outputs[kept.output_places[i]];
        if (!gradients[i].defined() || !output.defined() || !output.requires_grad()) continue;
        roots.push_back(output);
        root_gradients.push_back(gradients[i]);
      }
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
  }
};

}  // namespace

std::vector<at::Tensor> run_part(Part part, const std::vector<at::Tensor>& inputs,
                                 const ActivationCheckpointOptions& options) {
  if (!torch::GradMode::is_enabled()) return part(inputs);
  const auto kept = c10::make_intrusive<Kept>();
  kept->part = std::move(part);
  kept->inputs = inputs.size();
  const std::vector<at::Tensor> defined = defined_of(inputs, kept->input_places);
  kept->devices = devices_of(inputs);
  if (options.preserve_rng_state) kept->random_states.emplace(kept->devices);
  kept->autocast.emplace(kept->devices);
  const at::Tensor anchor = at::empty({0}, at::kFloat).set_requires_grad(true);
  const variable_list results = CheckpointedPart::apply(anchor, kept, at::TensorList(defined));
  return spread(results, kept->output_places, kept->outputs);
}

}  // namespace muster::activation_checkpoint_detail
