// The models of parity_models.py in C++: the same layers under the same names. Shared by the parity
// tests and the trainer's benchmarks.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

namespace parity {

// Two linear layers, as Sequential(Linear, ReLU, Linear) names them.
class PerceptronImpl : public torch::nn::Module {
 public:
  PerceptronImpl(int64_t inputs, int64_t width, int64_t outputs);
  at::Tensor forward(const at::Tensor& input);

 private:
  torch::nn::Linear first_{nullptr}, last_{nullptr};
};
TORCH_MODULE(Perceptron);

// Any of the models behind one type, so that a program can prepare the one that a case names.
struct NetImpl : torch::nn::Module {
  // inputs: images float [samples, 1, 8, 8] or characters int64 [samples, context]. Returns logits
  // [samples, classes] or [samples, context, vocabulary]. with_side: see make_model.
  virtual at::Tensor forward(const at::Tensor& inputs, bool with_side = true) = 0;
};
using Net = std::shared_ptr<NetImpl>;

// "digits" (a small CNN with dropout), "digits_plain" (without), "norm" and "norm_side" (batch
// normalization, and a layer that is used only with_side), "small_layers" (300 layers of 272
// weights on the digits), "transformer" (characters), "transformer_wide", "transformer_deep" (293
// small tensors), "transformer_tied" (the head has the embedding's weight), "gru", "gan" (its
// children "generator" and "discriminator" are Perceptrons, to be prepared separately). Throws
// std::out_of_range for another name.
Net make_model(const std::string& name);

// Cross entropy of a micro-batch; model is anything callable like a Net. micro_batch counts from 0:
// "norm_side" skips its side layer in every third one.
template <typename Model>
at::Tensor loss_of(Model& model, const std::string& name, const at::Tensor& inputs,
                   const at::Tensor& labels, int64_t micro_batch) {
  const at::Tensor logits =
      name == "norm_side" ? model(inputs, micro_batch % 3 != 1) : model(inputs, true);
  return torch::nn::functional::cross_entropy(logits.view({-1, logits.size(-1)}),
                                              labels.reshape(-1));
}

}  // namespace parity
