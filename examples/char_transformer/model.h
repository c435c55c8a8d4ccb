// A small GPT: pre-norm blocks of causal attention and a GELU network, over characters.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019. Names of
// parameters and the order of random numbers are those of train.py, so that equal seeds give equal
// weights.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace char_transformer {

struct ModelOptions {
  int64_t vocabulary = 0;  // different tokens
  int64_t context = 64;    // tokens that the model sees at most
  int64_t layers = 3;
  int64_t heads = 4;
  int64_t width = 96;    // a multiple of heads
  double dropout = 0.0;  // after attention and after each network
  bool tied = true;      // the output layer shares the weights of the token embedding
};

// x + attention(norm(x)), then x + network(norm(x)).
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const ModelOptions& options);
  // float [samples, tokens, width], the same shape back.
  at::Tensor forward(at::Tensor x);

  int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, projection{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

struct TransformerImpl : torch::nn::Module {
  // Weights from torch's default generator: normal with deviation 0.02, smaller where blocks add to
  // the residual stream. Throws std::invalid_argument when the width is no multiple of the heads.
  explicit TransformerImpl(const ModelOptions& options);

  // tokens: int64 [samples, length], length <= context. Logits of the token that follows each one:
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

// Tokens that follow `prompt` (int64 [length], not empty), drawn one by one from the model: int64
// [options.length], on the CPU. The same on every machine with the same logits.
at::Tensor sample(TransformerImpl& model, at::Tensor prompt, const SampleOptions& options);

}  // namespace char_transformer
