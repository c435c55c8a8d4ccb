// Linear layers that compute their matrix products in 8-bit floating point, in forward and
// backward.
//
// Recipe: dynamic per-tensor scaling. Before each product, each operand is divided by its own scale
// and rounded to 8 bits; the product is multiplied by both scales.
//   forward   output      = input · weightᵀ        input, weight: e4m3 (largest 448)
//   backward  grad_input  = grad_output · weight   grad_output: e5m2 (largest 57344), weight: e4m3
//             grad_weight = grad_outputᵀ · input   grad_output: e5m2, input: e4m3
//   scale = max(amax, max · 2^-126) / max, with amax the largest magnitude of the tensor and `max`
//   that of the format, in float32; quotient = x / scale in float32; rounding to nearest even. The
//   largest element becomes `max` itself, so nothing saturates, and history is not needed.
// A tensor of zeros stays zeros. If an operand contains an inf or a NaN, its scale is not finite
// and all elements of the product are NaN: a GradScaler detects the overflow and skips the step.
// The bias and its gradient are never rounded to 8 bits. Sources: the formats and their uses, "FP8
// Formats for Deep Learning", arXiv:2209.05433; dynamic per-tensor scaling, torchao.float8
// "tensorwise" (float8_scaling_utils.py), which clamps amax at 1e-12, whereas this one goes down to
// the smallest normal number.
//
// Weights are not changed (they may be float32 masters, sharded, or tied): the 8-bit copy is
// computed at each use and again in backward, so nothing of the weight's size is kept. Of the
// input, the 8-bit copy is saved for backward: a quarter of a float32 layer's activation memory.
//
// On CUDA the products use at::_scaled_mm (compute capability 8.9 and newer). Elsewhere, and on
// request, they are emulated: the same 8-bit numbers, multiplied in float32 (the same quantization
// error, but no speedup). Training thread. Not collective.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <iosfwd>

namespace muster {

enum class Fp8Implementation {
  automatic,  // scaled_mm for tensors on CUDA, else emulation
  scaled_mm,  // at::_scaled_mm on any device
  emulation   // float8 values, float32 products
};

struct Fp8Options {
  Fp8Implementation implementation = Fp8Implementation::automatic;
  // Lets tensor cores accumulate the forward product in fewer than 32 bits, which is faster on
  // Hopper; backward always uses 32 bits. torchao's default. scaled_mm only.
  bool fast_accumulation = true;
};

// input · weightᵀ + bias as above. input: [..., in], weight: [out, in], bias: [out] or undefined;
// float32, bfloat16 or float16, all on one device. Returns [..., out] in the input's dtype, or
// under autocast in autocast's dtype, as torch::linear does. Each gradient has the dtype of its
// tensor. No second derivatives.
//
// scaled_mm requires sizes that are multiples of 16: others are padded with zeros, which costs a
// copy of each operand (choose in, out and the number of rows accordingly). Throws
// std::invalid_argument naming shapes or dtypes that do not fit; muster::Error if scaled_mm was
// chosen and the device does not support it, with what to change.
at::Tensor fp8_linear(const at::Tensor& input, const at::Tensor& weight,
                      const at::Tensor& bias = {}, const Fp8Options& options = {});

struct Fp8LinearOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = true;
  Fp8Options fp8 = {};
};

// torch::nn::Linear computed by fp8_linear: the same parameters "weight" and "bias", initialized
// from the same random numbers, so checkpoints are interchangeable. Keep the first and last layers
// of a model, and layers with fewer than about 1000 features, as torch::nn::Linear (torchao's
// advice).
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
