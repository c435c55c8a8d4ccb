// Nets that Python exports, trained in C++: a file of torch.export (.pt2) as a module.
//
//   muster::ExportedModel net("net.pt2");        // python -m muster.export my_nets:make_net -o net.pt2
//   auto [model, optimizer] = accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-3}));
//   at::Tensor loss = model(images, labels)["loss"];
//
// forward runs the file's graph, operator by operator, on LibTorch's dispatcher: autograd, autocast, DDP and sharding see the
// operators that Python's net calls, in its order, and losses and gradients have Python's bits. Parameters and buffers have
// Python's names (those of state_dict(): constants and buffers with persistent=False are not among them), numbered children are
// module lists, and tied weights are one tensor. Whatever works on a module of C++ works on it.
//
// Source of the format: torch/_export/serde/schema.py and torch/export/pt2_archive of torch 2.13 (schema 8; docs/formats-exported.md
// tells which files are read). A file is foreign: its graph may only call operators of ATen that do nothing but compute tensors,
// and those that the program allows by name.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "muster/memory/deferred_init.h"

namespace muster {

struct ExportedArchive;  // a file, as it is read; src/exported

struct ExportedModelOptions {
  // Saves only the inputs of each block, a numbered child ("layers.3") of the outermost module list, and computes the block again
  // in backward; see muster/memory/activation_checkpoint.h. In training only.
  bool checkpoint_blocks = false;
  // Operators outside of ATen that the graph may call, "mylib::my_operator". The library that registers them must be loaded.
  std::vector<std::string> allowed_operators = {};
};

// What a net returns: the tensors of Python's value, however nested, in its order.
struct ExportedOutput {
  // Numbers are tensors of no dimensions; a None is an undefined tensor.
  std::vector<at::Tensor> tensors;
  // Their paths: "loss" of a dict, "1.0" of the first part of the second part of a tuple; "" of a tensor alone.
  std::vector<std::string> names;

  // Throws muster::Error naming those that there are.
  const at::Tensor& operator[](std::string_view name) const;
  // Of a net that returns one tensor; else throws muster::Error.
  const at::Tensor& tensor() const;

  auto fields() { return std::tie(tensors, names); }
};

// The module. Training thread only, like any module; not collective. It cannot be cloned.
//
// The file's weights are mapped, not read: it must stay as it is while a module has tensors in it (sharding, a move to another
// device and a step of the optimizer take them out), and weights that are never written are shared by the processes of a machine.
// Under zero3, no rank ever holds the whole model.
//
// train() and eval(): a file of `python -m muster.export` holds the graphs of both modes, and is_training() of this module
// chooses. A file of torch.export.save alone holds one: if it was exported in training mode, dropout, batch and instance
// normalization, attention's dropout and recurrent operators follow is_training() of the module that they belong to; what else
// depends on the mode, or may, is refused by forward, by the operator's name. A file that was exported in evaluation mode is
// refused in training. (A net with nothing but attention whose dropout is 0 says nothing of its mode and runs in both.)
class ExportedModelImpl : public torch::nn::Module {
 public:
  // Throws CheckpointError if the file cannot be read, FormatError if it is damaged, no file of torch.export, or calls an
  // operator that is unknown or not allowed, each by name.
  explicit ExportedModelImpl(const std::string& path, const ExportedModelOptions& options = {});
  ~ExportedModelImpl() override;

  // By position, in the order of Python's forward. Numbers that the net takes are tensors of no dimensions. Throws
  // std::invalid_argument naming the input if one is missing, of another dtype, or of a size that was not exported; on any device,
  // that of the module's tensors.
  ExportedOutput forward(const std::vector<at::Tensor>& inputs);
  template <std::convertible_to<at::Tensor>... Tensors>
  ExportedOutput forward(const Tensors&... inputs) {
    return forward(std::vector<at::Tensor>{at::Tensor(inputs)...});
  }
  // By name: those of input_names().
  ExportedOutput forward(const std::map<std::string, at::Tensor>& inputs);

  // "x", or the path of a part of a nested input: "batch.images". Inputs that were exported as a constant (None, a string) are
  // not among them.
  const std::vector<std::string>& input_names() const;
  // The version of torch that wrote the file.
  const std::string& torch_version() const;

  void pretty_print(std::ostream& stream) const override;

  // ---- For Accelerator::prepare ----
  // Under zero3 no rank ever holds the whole model: its parameters stay in the file until each rank takes its part of one after the
  // other.

  // Equal for files of equal weights; empty if a parameter was changed or moved since it was loaded. (A change by way of .data() is
  // not seen: change parameters under torch::NoGradGuard.)
  std::string unchanged_weights() const;
  // Makes the parameters tensors of the device "meta". What is returned calls place once for each, with its value.
  std::function<void(const PlaceValue& place)> leave_weights_in_file();

 private:
  struct State;
  void load(ExportedArchive& archive);

  std::unique_ptr<State> state_;
};

// The holder, as TORCH_MODULE makes it, which also takes options in braces:
//
//   muster::ExportedModel net("net.pt2", {.checkpoint_blocks = true});
class ExportedModel : public torch::nn::ModuleHolder<ExportedModelImpl> {
 public:
  using Impl = ExportedModelImpl;
  using torch::nn::ModuleHolder<ExportedModelImpl>::ModuleHolder;
  explicit ExportedModel(const std::string& path, const ExportedModelOptions& options = {})
      : ModuleHolder(std::make_shared<ExportedModelImpl>(path, options)) {}
};

}  // namespace muster
