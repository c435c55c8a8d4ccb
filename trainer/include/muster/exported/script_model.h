// TorchScript files as modules. TorchScript is deprecated: torch develops it no further (pytorch#144663), and new files should be
// made by torch.export (muster/exported/exported_model.h), whose graphs train with Python's numbers and in both modes.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "muster/exported/exported_model.h"

namespace muster {

// A file of torch.jit.save with its parameters and buffers by Python's names, for prepare(), DDP, sharding and checkpoints as any
// module. train() and eval() are the file's own. It runs without the optimizing executor, which would change the numbers of the
// first steps. A TorchScript file is a program: load those that you trust. Training thread; it cannot be cloned.
class ScriptModelImpl : public torch::nn::Module {
 public:
  // Throws CheckpointError naming the path if LibTorch cannot load it.
  explicit ScriptModelImpl(const std::string& path);
  ~ScriptModelImpl() override;

  // By position. What the file returns, however nested, as ExportedModel's forward has it.
  ExportedOutput forward(const std::vector<at::Tensor>& inputs);
  template <std::convertible_to<at::Tensor>... Tensors>
  ExportedOutput forward(const Tensors&... inputs) {
    return forward(std::vector<at::Tensor>{at::Tensor(inputs)...});
  }

  void train(bool on = true) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
TORCH_MODULE(ScriptModel);

}  // namespace muster
