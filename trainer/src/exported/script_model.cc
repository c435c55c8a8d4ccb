#include "muster/exported/script_model.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include "exported/module_tree.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Tensors in order, with their paths.
void append_outputs(const c10::IValue& value, const std::string& path, ExportedOutput& output) {
  const auto below = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    for (size_t i = 0; i < elements.size(); ++i)
      append_outputs(elements[i], below(std::to_string(i)), output);
  } else if (value.isList()) {
    size_t i = 0;
    for (const c10::IValue& element : value.toListRef())
      append_outputs(element, below(std::to_string(i++)), output);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      const c10::IValue& key = item.key();
      append_outputs(item.value(), below(key.isString() ? key.toStringRef() : c10::str(key)),
                     output);
    }
  } else {
    at::Tensor tensor = value.isTensor() ? value.toTensor() : at::Tensor();
    if (value.isScalar()) tensor = at::scalar_tensor(value.toScalar());
    output.tensors.push_back(std::move(tensor));
    output.names.push_back(path);
  }
}

torch::jit::Module load_script(const std::string& path) {
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const c10::Error& error) {
    throw CheckpointError("cannot load the TorchScript file " + path + ": " +
                          error.what_without_backtrace());
  }
}

}  // namespace

struct ScriptModelImpl::State {
  torch::jit::Module module;
};

ScriptModelImpl::ScriptModelImpl(const std::string& path)
    : torch::nn::Module("ScriptModel"), state_(std::make_unique<State>(State{load_script(path)})) {
  std::vector<std::string> names;
  for (const auto& each : state_->module.named_modules()) {
    if (!each.name.empty()) names.push_back(each.name);
  }
  const ModuleTree tree(*this, names);
  for (const auto& each : state_->module.named_parameters()) {
    const auto [parent, own] = split_name(each.name);
    tree.at(parent).register_parameter(own, each.value, each.value.requires_grad());
  }
  for (const auto& each : state_->module.named_buffers()) {
    const auto [parent, own] = split_name(each.name);
    tree.at(parent).register_buffer(own, each.value);
  }
}

ScriptModelImpl::~ScriptModelImpl() = default;

void ScriptModelImpl::train(bool on) {
  torch::nn::Module::train(on);
  if (state_ != nullptr) state_->module.train(on);
}

ExportedOutput ScriptModelImpl::forward(const std::vector<at::Tensor>& inputs) {
  const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
  ExportedOutput output;
  append_outputs(state_->module.forward({inputs.begin(), inputs.end()}), "", output);
  return output;
}

}  // namespace muster
