// The network for the digits, and random shifts of training images.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace digits {

// 8x8 gray image -> two 3x3 convolutions -> 2x2 pooling -> two linear layers.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    using torch::nn::Conv2dOptions;
    conv1 = register_module("conv1", torch::nn::Conv2d(Conv2dOptions(1, 32, 3).padding(1)));
    conv2 = register_module("conv2", torch::nn::Conv2d(Conv2dOptions(32, 64, 3).padding(1)));
    hidden = register_module("hidden", torch::nn::Linear(64 * 4 * 4, 128));
    output = register_module("output", torch::nn::Linear(128, 10));
    dropout = register_module("dropout", torch::nn::Dropout(0.4));
  }

  // images: float [samples, 1, 8, 8]; result: logits, float [samples, 10].
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::relu(conv1(images));
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = dropout(torch::relu(hidden(dropout(x.flatten(1)))));
    return output(x);
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

// Shifts each image by -1, 0 or 1 pixels in both directions, filling with background.
inline at::Tensor shift_randomly(const at::Tensor& images) {
  const at::Tensor padded = torch::constant_pad_nd(images, {1, 1, 1, 1}, 0);
  const int64_t count = images.size(0);
  const at::Tensor shifts = torch::randint(0, 3, {count, 2, 1}, at::kLong).to(images.device());
  const at::Tensor range = torch::arange(8, shifts.options()).view({1, 8});
  const at::Tensor rows = (shifts.select(1, 0) + range).view({count, 8, 1});
  const at::Tensor columns = (shifts.select(1, 1) + range).view({count, 1, 8});
  const at::Tensor sample = torch::arange(count, shifts.options()).view({count, 1, 1});
  return padded.squeeze(1).index({sample, rows, columns}).unsqueeze(1);
}

}  // namespace digits
