// A small GPT over characters: pre-norm blocks of causal attention and a GELU MLP. Source: Radford
// et al., "Language Models are Unsupervised Multitask Learners", 2019. Parameter names and the
// order of random numbers are those of train.py, so equal seeds give equal weights.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace char_transformer {

struct ModelOptions {
  int64_t vocabulary = 0;  // number of distinct tokens
  int64_t context = 64;    // most tokens that the model sees
  int64_t layers = 3;
  int64_t heads = 4;
  int64_t width = 96;    // a multiple of heads
  double dropout = 0.0;  // after attention and after each MLP
  bool tied = true;      // the output layer shares the weights of the token embedding
};

// x + attention(norm(x)), then x + mlp(norm(x)).
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const ModelOptions& options);
  // x: float [samples, tokens, width]. Returns the same shape.
  at::Tensor forward(at::Tensor x);

  int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, projection{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

struct TransformerImpl : torch::nn::Module {
  // Weights from torch's default generator: normal with standard deviation 0.02, smaller where
  // blocks add to the residual stream. Throws std::invalid_argument if width is not a multiple of
  // heads.
  explicit TransformerImpl(const ModelOptions& options);

  // tokens: int64 [samples, length], length <= context. Returns the logits of each next token:
  // float [samples, length, vocabulary].
  at::Tensor forward(const at::Tensor& tokens);

  const ModelOptions options;
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
  torch::nn::Dropout dropout{nullptr};

 private:
  void initialize();
};
TORCH_MODULE(Transformer);

// Mean cross-entropy in nats per token. logits: [samples, length, vocabulary], targets: int64
// [samples, length].
at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& targets);

struct SampleOptions {
  int64_t length = 400;      // tokens to add
  double temperature = 0.8;  // below 1: safer, above: wilder
  uint64_t seed = 1;
};

// Samples the tokens that follow `prompt` (int64 [length], not empty), one at a time: int64
// [options.length], on the CPU. Equal logits give equal tokens on every machine.
at::Tensor sample(TransformerImpl& model, at::Tensor prompt, const SampleOptions& options);

}  // namespace char_transformer
