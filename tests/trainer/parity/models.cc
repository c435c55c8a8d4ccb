// See models.h; parity_models.py is the other half.
#include "parity/models.h"

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

namespace parity {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Embedding;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;
using torch::nn::LinearOptions;

constexpr int64_t kContext = 32;
constexpr int64_t kVocabulary = 64;

struct Digits : NetImpl {
  explicit Digits(double rate) {
    conv1 = register_module("conv1", Conv2d(Conv2dOptions(1, 32, 3).padding(1)));
    conv2 = register_module("conv2", Conv2d(Conv2dOptions(32, 64, 3).padding(1)));
    hidden = register_module("hidden", Linear(64 * 4 * 4, 128));
    output = register_module("output", Linear(128, 10));
    dropout = register_module("dropout", torch::nn::Dropout(rate));
  }
  at::Tensor forward(const at::Tensor& images, bool) override {
    at::Tensor x = torch::relu(conv1(images));
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = dropout(torch::relu(hidden(dropout(x.flatten(1)))));
    return output(x);
  }
  Conv2d conv1{nullptr}, conv2{nullptr};
  Linear hidden{nullptr}, output{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

struct Norm : NetImpl {
  Norm() {
    conv = register_module("conv", Conv2d(Conv2dOptions(1, 16, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    side = register_module("side", Linear(16, 10));
    output = register_module("output", Linear(16 * 8 * 8, 10));
  }
  at::Tensor forward(const at::Tensor& images, bool with_side) override {
    const at::Tensor x = torch::relu(norm(conv(images)));
    const at::Tensor logits = output(x.flatten(1));
    return with_side ? logits + side(x.mean({2, 3})) : logits;
  }
  Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  Linear side{nullptr}, output{nullptr};
};

// Python's linear layer. LibTorch's adds the bias of 3-d inputs in a separate operation, which
// rounds once more in bfloat16.
at::Tensor python_linear(const Linear& layer, const at::Tensor& input) {
  return torch::linear(input, layer->weight, layer->bias);
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t width, int64_t heads) : heads(heads) {
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({width})));
    qkv = register_module("qkv", Linear(width, 3 * width));
    proj = register_module("proj", Linear(width, width));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({width})));
    up = register_module("up", Linear(width, 4 * width));
    down = register_module("down", Linear(4 * width, width));
  }
  at::Tensor forward(const at::Tensor& input) {
    const int64_t batch = input.size(0), length = input.size(1), width = input.size(2);
    const auto parts = python_linear(qkv, norm1(input))
                           .view({batch, length, 3, heads, -1})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const at::Tensor y =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    const at::Tensor x =
        input + python_linear(proj, y.transpose(1, 2).reshape({batch, length, width}));
    return x + python_linear(down, torch::gelu(python_linear(up, norm2(x))));
  }
  int64_t heads;
  LayerNorm norm1{nullptr}, norm2{nullptr};
  Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

// Many layers of a few hundred weights each, every one its own unit when the model is sharded.
struct SmallLayers : NetImpl {
  SmallLayers() {
    input = register_module("input", Linear(64, kWidth));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 300; ++i) layers->push_back(Linear(kWidth, kWidth));
    output = register_module("output", Linear(kWidth, 10));
  }
  at::Tensor forward(const at::Tensor& images, bool) override {
    at::Tensor x = input(images.flatten(1));
    for (const auto& layer : *layers) x = x + 0.1 * torch::tanh(layer->as<Linear>()->forward(x));
    return output(x);
  }
  static constexpr int64_t kWidth = 16;
  Linear input{nullptr}, output{nullptr};
  torch::nn::ModuleList layers{nullptr};
};

struct Shape {
  int64_t width, heads, layers;
  bool tied = false;
};

// The weight of another module under a second name, as in Python's tying.
struct TiedHeadImpl : torch::nn::Module {
  explicit TiedHeadImpl(const at::Tensor& shared) { weight = register_parameter("weight", shared); }
  at::Tensor weight;
};
TORCH_MODULE(TiedHead);

struct Transformer : NetImpl {
  explicit Transformer(const Shape& shape) {
    token = register_module("token", Embedding(kVocabulary, shape.width));
    position = register_module("position", Embedding(kContext, shape.width));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int64_t i = 0; i < shape.layers; ++i) blocks->push_back(Block(shape.width, shape.heads));
    norm = register_module("norm", LayerNorm(LayerNormOptions({shape.width})));
    if (shape.tied) {
      tied_head = register_module("head", TiedHead(token->weight));
    } else {
      head = register_module("head", Linear(LinearOptions(shape.width, kVocabulary).bias(false)));
    }
  }
  at::Tensor forward(const at::Tensor& tokens, bool) override {
    at::Tensor x = token(tokens) + position(torch::arange(tokens.size(1), tokens.options()));
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return tied_head ? torch::linear(norm(x), tied_head->weight) : python_linear(head, norm(x));
  }
  Embedding token{nullptr}, position{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  LayerNorm norm{nullptr};
  Linear head{nullptr};
  TiedHead tied_head{nullptr};
};

struct Gru : NetImpl {
  Gru() {
    const auto options = torch::nn::GRUOptions(8, 32).num_layers(2).batch_first(true);
    gru = register_module("gru", torch::nn::GRU(options));
    output = register_module("output", Linear(32, 10));
  }
  at::Tensor forward(const at::Tensor& images, bool) override {
    return output(std::get<0>(gru(images.squeeze(1))).select(1, -1));
  }
  torch::nn::GRU gru{nullptr};
  Linear output{nullptr};
};

struct Gan : NetImpl {
  Gan() {
    register_module("generator", Perceptron(16, 64, 64));
    register_module("discriminator", Perceptron(64, 64, 1));
  }
  at::Tensor forward(const at::Tensor&, bool) override {
    throw std::logic_error("the two models of \"gan\" are called apart");
  }
};

}  // namespace

PerceptronImpl::PerceptronImpl(int64_t inputs, int64_t width, int64_t outputs) {
  first_ = register_module("0", Linear(inputs, width));
  last_ = register_module("2", Linear(width, outputs));
}

at::Tensor PerceptronImpl::forward(const at::Tensor& input) {
  return last_(torch::relu(first_(input)));
}

Net make_model(const std::string& name) {
  const std::map<std::string, std::function<Net()>> models = {
      {"digits", [] { return std::make_shared<Digits>(0.4); }},
      {"digits_plain", [] { return std::make_shared<Digits>(0.0); }},
      {"norm", [] { return std::make_shared<Norm>(); }},
      {"norm_side", [] { return std::make_shared<Norm>(); }},
      {"small_layers", [] { return std::make_shared<SmallLayers>(); }},
      {"gru", [] { return std::make_shared<Gru>(); }},
      {"gan", [] { return std::make_shared<Gan>(); }},
      {"transformer_tied",
       [] {
         return std::make_shared<Transformer>(Shape{64, 4, 2, /*tied=*/true});
       }},
      {"transformer",
       [] {
         return std::make_shared<Transformer>(Shape{64, 4, 2});
       }},
      {"transformer_wide",
       [] {
         return std::make_shared<Transformer>(Shape{192, 6, 4});
       }},
      {"transformer_deep", [] {
         return std::make_shared<Transformer>(Shape{32, 4, 24});
       }}};
  return models.at(name)();
}

}  // namespace parity
