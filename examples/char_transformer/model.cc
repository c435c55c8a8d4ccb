// The layers and the sampling; see model.h.
#include "examples/char_transformer/model.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace char_transformer {

namespace nn = torch::nn;

BlockImpl::BlockImpl(const ModelOptions& options) : heads(options.heads) {
  const int64_t width = options.width;
  norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
  qkv = register_module("qkv", nn::Linear(width, 3 * width));
  projection = register_module("projection", nn::Linear(width, width));
  norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
  up = register_module("up", nn::Linear(width, 4 * width));
  down = register_module("down", nn::Linear(4 * width, width));
  dropout = register_module("dropout", nn::Dropout(options.dropout));
}

at::Tensor BlockImpl::forward(at::Tensor x) {
  const int64_t samples = x.size(0), length = x.size(1), width = x.size(2);
  // [3, samples, heads, length, width / heads]
  const auto parts =
      qkv(norm1(x)).view({samples, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  const at::Tensor seen = at::scaled_dot_product_attention(
      parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  x = x + dropout(projection(seen.transpose(1, 2).reshape({samples, length, width})));
  return x + dropout(down(torch::gelu(up(norm2(x)))));
}

TransformerImpl::TransformerImpl(const ModelOptions& model) : options(model) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    throw std::invalid_argument("a width of " + std::to_string(options.width) +
                                " cannot be split into " + std::to_string(options.heads) +
                                " heads: use a multiple");
  }
  tokens = register_module("tokens", nn::Embedding(options.vocabulary, options.width));
  positions = register_module("positions", nn::Embedding(options.context, options.width));
  register_module("blocks", blocks);
  for (int64_t layer = 0; layer < options.layers; ++layer) blocks->push_back(Block(options));
  norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({options.width})));
  dropout = register_module("dropout", nn::Dropout(options.dropout));
  if (!options.tied) {
    head = register_module(
        "head", nn::Linear(nn::LinearOptions(options.width, options.vocabulary).bias(false)));
  }
  initialize();
}

void TransformerImpl::initialize() {
  const torch::NoGradGuard no_grad;
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (auto& parameter : named_parameters()) {
    const std::string& name = parameter.key();
    const bool adds_to_residual = name.find("projection") != std::string::npos ||  //
                                  name.find("down") != std::string::npos;
    if (parameter->dim() == 2) {
      nn::init::normal_(*parameter, 0.0, adds_to_residual ? residual : 0.02);
    } else if (name.ends_with("bias")) {
      nn::init::zeros_(*parameter);
    }
  }
}

at::Tensor TransformerImpl::forward(const at::Tensor& input) {
  at::Tensor x = dropout(tokens(input) + positions->weight.slice(0, 0, input.size(1)));
  for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x);
  x = norm(x);
  return options.tied ? torch::linear(x, tokens->weight) : head(x);
}

at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& targets) {
  return nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
}

at::Tensor sample(TransformerImpl& model, at::Tensor prompt, const SampleOptions& options) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const at::Device device = model.tokens->weight.device();
  at::Generator random = at::detail::createCPUGenerator(options.seed);
  at::Tensor text = prompt.reshape({1, -1}).to(device);
  for (int64_t i = 0; i < options.length; ++i) {
    const at::Tensor seen = text.slice(1, -model.options.context);
    const at::Tensor logits = model.forward(seen).select(1, -1).to(at::kCPU, at::kFloat);
    const at::Tensor chances = torch::softmax(logits / options.temperature, -1);
    text = torch::cat({text, torch::multinomial(chances, 1, false, random).to(device)}, 1);
  }
  model.train(was_training);
  return text[0].slice(0, prompt.numel()).cpu();
}

}  // namespace char_transformer
