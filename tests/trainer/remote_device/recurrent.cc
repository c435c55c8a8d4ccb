// The cell of an LSTM: LibTorch asks devices other than the CPU for it as one operator.
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <optional>
#include <vector>

#include "registration.h"

namespace remote {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three lstm_cell(const at::Tensor& of_input, const at::Tensor& of_hidden, const at::Tensor& cell,
                const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  at::Tensor gates = of_input.add(of_hidden);
  if (input_bias && input_bias->defined()) gates = gates.add(*input_bias).add(*hidden_bias);
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]);
  const at::Tensor candidate = at::tanh(parts[2]), out = at::sigmoid(parts[3]);
  const at::Tensor next = forget.mul(cell).add(in.mul(candidate));
  return {out.mul(at::tanh(next)), next, at::cat({in, forget, candidate, out}, 1)};
}

Three lstm_cell_backward(const OptionalTensor& of_hidden, const OptionalTensor& of_cell,
                         const at::Tensor& cell, const at::Tensor& next,
                         const at::Tensor& activated, bool has_bias) {
  const auto slope = [](const at::Tensor& sigmoid) { return sigmoid.mul(sigmoid.neg().add(1)); };
  const std::vector<at::Tensor> parts = activated.chunk(4, 1);
  const at::Tensor in = parts[0], forget = parts[1], candidate = parts[2], out = parts[3];
  const at::Tensor shape = at::tanh(next);
  const at::Tensor gradient = of_hidden && of_hidden->defined() ? *of_hidden : at::zeros_like(next);
  at::Tensor inner = gradient.mul(out).mul(shape.mul(shape).neg().add(1));
  if (of_cell && of_cell->defined()) inner = inner.add(*of_cell);
  const at::Tensor gates =
      at::cat({inner.mul(candidate).mul(slope(in)), inner.mul(cell).mul(slope(forget)),
               inner.mul(in).mul(candidate.mul(candidate).neg().add(1)),
               gradient.mul(shape).mul(slope(out))},
              1);
  return {gates, inner.mul(forget), has_bias ? gates.sum(0) : at::Tensor()};
}

}  // namespace

void register_recurrent() {
  static auto* const library = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl("_thnn_fused_lstm_cell", &lstm_cell);
  library->impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
}

}  // namespace remote
