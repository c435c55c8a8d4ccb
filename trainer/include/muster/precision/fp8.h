// Linear layers whose matrix products run on 8-bit floating-point numbers, forward and backward.
//
// Recipe: dynamic scaling per tensor. Before each product both operands are divided by a scale of
// their own and rounded to 8 bits; the product is multiplied by both scales.
//   forward   output      = input · weightᵀ        input, weight: e4m3 (largest 448)
//   backward  grad_input  = grad_output · weight   grad_output: e5m2 (largest 57344), weight: e4m3
//             grad_weight = grad_outputᵀ · input   grad_output: e5m2, input: e4m3
//   scale = max(amax, max · 2^-126) / max, with amax the largest magnitude of the tensor and `max`
//   that of the format, in float32; quotient = x / scale in float32; rounding to nearest even. The
//   largest element becomes `max` itself, so nothing saturates, and history is not needed.
// A tensor of zeros stays zeros. A tensor with an inf or a NaN makes the products it is in NaN, all
// elements of them (the scale is then not finite): a GradScaler sees the overflow and skips the
// step. bias and its gradient never become 8-bit numbers.
// Sources: the formats and what they are for, "FP8 Formats for Deep Learning", arXiv:2209.05433;
// dynamic scaling per tensor, torchao.float8 "tensorwise" (float8_scaling_utils.py), which clamps
// amax at 1e-12 where this one goes down to the smallest normal number.
//
// Weights stay what they are (float32 masters, pieces of a sharded model, tied): the 8-bit copy
// is made at each use and made again in backward, so that nothing of the size of the weight is
// kept. Of the input its 8-bit copy is kept: a quarter of a float32 layer's activation memory.
//
// On CUDA the products are at::_scaled_mm (compute capability 8.9 and newer). Elsewhere, and where
// asked for, they are emulated: the same 8-bit numbers, multiplied in float32 (same quantisation
// error, no speed).
// Training thread. Not collective.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <iosfwd>

namespace muster {

enum class Fp8Implementation {
  automatic,  // scaled_mm for tensors on CUDA, else emulation
  scaled_mm,  // at::_scaled_mm, wherever the tensors are
  emulation   // float8 values, float32 products
};

struct Fp8Options {
  Fp8Implementation implementation = Fp8Implementation::automatic;
  // The forward product may add up with fewer than 32 bits inside the tensor cores, which is faster
  // on Hopper; products of backward never do. As torchao's default. scaled_mm only.
  bool fast_accumulation = true;
};

// input · weightᵀ + bias as above. input: [..., in], weight: [out, in], bias: [out] or undefined;
// float32, bfloat16 or float16, all on one device. Returns [..., out] in the input's dtype; under
// autocast for the device in autocast's dtype, as torch::linear. Gradients have the dtype of what
// they belong to. No second derivatives.
//
// scaled_mm wants sizes that are multiples of 16: others are padded with zeros, which costs a copy
// of each operand (choose in, out and the number of rows accordingly).
// Throws std::invalid_argument for shapes and dtypes that do not fit, naming them; muster::Error
// when scaled_mm was chosen and the device has no such product, saying what to change.
at::Tensor fp8_linear(const at::Tensor& input, const at::Tensor& weight,
                      const at::Tensor& bias = {}, const Fp8Options& options = {});

struct Fp8LinearOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = true;
  Fp8Options fp8 = {};
};

// torch::nn::Linear with fp8_linear inside: the same parameters "weight" and "bias", initialised by
// the same random numbers, so that checkpoints fit both. Leave the first and the last layer of a
// model, and layers below about 1000 features, as torch::nn::Linear (torchao's advice).
class Fp8LinearImpl : public torch::nn::Cloneable<Fp8LinearImpl> {
 public:
  Fp8LinearImpl(int64_t in_features, int64_t out_features)
      : Fp8LinearImpl(Fp8LinearOptions{.in_features = in_features, .out_features = out_features}) {}
  // Throws std::invalid_argument unless both sizes are at least 1.
  explicit Fp8LinearImpl(const Fp8LinearOptions& options);

  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  at::Tensor forward(const at::Tensor& input);

  Fp8LinearOptions options;
  at::Tensor weight;  // [out_features, in_features]
  at::Tensor bias;    // [out_features], or undefined
};
TORCH_MODULE(Fp8Linear);

}  // namespace muster
