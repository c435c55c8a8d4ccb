// Encodes texts; see text_data.h.
#include "examples/char_transformer/text_data.h"

#include <muster/data/dataset.h>

#include <set>
#include <stdexcept>

#include "examples/common/gzip_text.h"

namespace char_transformer {

std::string Text::decode(const at::Tensor& some) const {
  std::string text;
  for (int64_t i = 0; i < some.numel(); ++i) text += alphabet.at(some[i].item<int64_t>());
  return text;
}

at::Tensor Text::encode(const std::string& some) const {
  std::array<int64_t, 256> token_of;
  token_of.fill(-1);
  for (size_t i = 0; i < alphabet.size(); ++i) {
    token_of[static_cast<unsigned char>(alphabet[i])] = static_cast<int64_t>(i);
  }
  at::Tensor result = torch::empty({static_cast<int64_t>(some.size())}, at::kLong);
  int64_t* next = result.mutable_data_ptr<int64_t>();
  for (const char character : some) {
    *next = token_of[static_cast<unsigned char>(character)];
    if (*next++ < 0) {
      throw std::runtime_error("the text has no character '" + std::string(1, character) + "'");
    }
  }
  return result;
}

std::pair<at::Tensor, at::Tensor> Text::split(double last_part) const {
  const auto first = static_cast<int64_t>(static_cast<double>(tokens.numel()) * (1 - last_part));
  return {tokens.slice(0, 0, first), tokens.slice(0, first)};
}

Text read_text(const std::string& path) {
  const std::string characters = examples::read_gzip(path);
  const std::set<char> different(characters.begin(), characters.end());
  Text text{.tokens = {}, .alphabet = {different.begin(), different.end()}};
  text.tokens = text.encode(characters);
  return text;
}

Windows::Windows(const at::Tensor& tokens, int64_t context, int64_t stride) {
  if (tokens.numel() <= context) {
    throw std::invalid_argument("a text of " + std::to_string(tokens.numel()) +
                                " characters has no window of " + std::to_string(context));
  }
  windows_ = tokens.unfold(0, context + 1, stride);
}

Windows::Batch Windows::get_batch(std::span<const int64_t> indices) const {
  const at::Tensor rows = muster::gather_rows(windows_, indices);
  const int64_t context = rows.size(1) - 1;
  return {rows.slice(1, 0, context), rows.slice(1, 1)};
}

}  // namespace char_transformer
