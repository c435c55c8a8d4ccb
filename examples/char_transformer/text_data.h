// A text as tokens, with one token per distinct character.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace char_transformer {

struct Text {
  at::Tensor tokens;     // int64 [characters]
  std::string alphabet;  // the character of each token, sorted

  int64_t vocabulary() const { return static_cast<int64_t>(alphabet.size()); }
  std::string decode(const at::Tensor& some) const;  // int64 [n], on the CPU
  at::Tensor encode(const std::string& some) const;  // throws std::runtime_error
  // The text without its last part, and the last part, as views.
  std::pair<at::Tensor, at::Tensor> split(double last_part) const;
};

// Reads a gzip file of single-byte characters. Throws std::runtime_error.
Text read_text(const std::string& path);

// A dataset of windows of `context` tokens with the tokens that follow them. Sample i begins at
// token i * stride: with stride 1 there is one per character, with stride = context each character
// occurs once.
class Windows {
 public:
  using Batch = std::array<at::Tensor, 2>;  // input and target: int64 [samples, context] each

  // Throws std::invalid_argument if there are too few tokens for one window.
  Windows(const at::Tensor& tokens, int64_t context, int64_t stride);

  int64_t size() const { return windows_.size(0); }
  Batch get_batch(std::span<const int64_t> indices) const;

 private:
  at::Tensor windows_;  // int64 [size, context + 1], a view of the text
};

}  // namespace char_transformer
