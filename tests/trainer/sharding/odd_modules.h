// A small model written in various ways, all of which must work with sharded parameters.
#pragma once

#include <muster/trainer.h>

#include <string>
#include <vector>

namespace muster {

struct OddBlockImpl : torch::nn::Module {
  explicit OddBlockImpl(int64_t width) {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    up = register_module("up", torch::nn::Linear(width, 2 * width));
    down = register_module("down", torch::nn::Linear(2 * width, width));
    scale = register_parameter("scale", torch::ones({}));  // one element
  }
  at::Tensor forward(const at::Tensor& x) { return x + scale * down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(OddBlock);

// A user-defined function that saves a parameter for its backward.
struct OwnProduct : torch::autograd::Function<OwnProduct> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return x.matmul(weight.t());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0].matmul(saved[1]), gradients[0].t().matmul(saved[0])};
  }
};

struct OddNetImpl : torch::nn::Module {
  static constexpr int64_t kWidth = 10, kTokens = 13;

  explicit OddNetImpl(std::string form_given) : form(std::move(form_given)) {
    token = register_module("token", torch::nn::Embedding(kTokens, kWidth));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) blocks->push_back(OddBlock(kWidth));
    weight = register_parameter("weight", torch::eye(kWidth) + 0.1 * torch::rand({kWidth, kWidth}));
    if (form == "tied, two names") twin = register_parameter("twin", token->weight);
    if (!form.starts_with("tied")) {
      head = register_module(
          "head", torch::nn::Linear(torch::nn::LinearOptions(kWidth, kTokens).bias(false)));
    }
    if (form == "doubles") wide = register_parameter("wide", torch::ones({kWidth}, at::kDouble));
    if (form == "lstm") {
      lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, kWidth)));
    }
    if (form == "attention") {
      attention = register_module("attention", torch::nn::MultiheadAttention(kWidth, 2));
    }
    if (form == "8 bits") eight = register_module("eight", Fp8Linear(kWidth, kWidth));
    if (form == "a frozen block") {
      for (at::Tensor& parameter : blocks[1]->parameters()) parameter.requires_grad_(false);
    }
    if (form == "a frozen weight") block(0)->up->weight.requires_grad_(false);
  }

  static std::vector<std::string> forms() {
    return {"usual",     "tied, two names", "tied",           "doubles",
            "lstm",      "attention",       "a frozen block", "a frozen weight",
            "backwards", "used twice",      "recomputed",     "own function",
            "8 bits",    "normalised",      "joined"};
  }

  // tokens: int64 [samples, length]. Returns logits [samples, length, kTokens].
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = through_blocks(token(tokens));
    if (form == "own function") {
      x = OwnProduct::apply(x.reshape({-1, kWidth}), weight).view_as(x);
    } else {
      x = x.matmul(weight);
    }
    if (form == "doubles") x = (x.to(at::kDouble) * wide).to(at::kFloat);
    return torch::nn::functional::linear(x, output_weight()).narrow(-1, 0, kTokens);
  }

  OddBlockImpl* block(size_t index) { return blocks[index]->as<OddBlock>(); }

  const std::string form;
  torch::nn::Embedding token{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::Linear head{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::MultiheadAttention attention{nullptr};
  Fp8Linear eight{nullptr};
  at::Tensor weight, wide, twin;

 private:
  at::Tensor through_blocks(at::Tensor x) {
    if (form == "lstm") x = std::get<0>(lstm(x));
    if (form == "attention") x = std::get<0>(attention(x, x, x));
    if (form == "8 bits") x = eight(x);
    if (form == "used twice") {
      for (size_t i = 0; i < 3; ++i) x = block(i)->forward(x);
    }
    for (size_t i = 0; i < 3; ++i) {
      OddBlockImpl* next = block(form == "backwards" ? 2 - i : i);
      const auto forward = [next](const at::Tensor& y) { return next->forward(y); };
      x = form == "recomputed" ? checkpoint(forward, x) : forward(x);
    }
    return x;
  }

  at::Tensor output_weight() {
    if (form == "tied") return token->weight;
    if (form == "tied, two names") return twin;
    if (form == "normalised") return head->weight / head->weight.norm();
    // Parameters of several units in one operator.
    if (form == "joined") return torch::cat({head->weight, weight, block(2)->up->weight});
    return head->weight;
  }
};
TORCH_MODULE(OddNet);

}  // namespace muster
