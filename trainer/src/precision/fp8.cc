// Scaled 8-bit matrix products, and the autograd node of the linear layer; see fp8.h.
//
// All three products of a layer are computed as a · bᵀ with both operands row-major along the
// summed dimension, which is the layout that tensor cores require ("TN").
#include "muster/precision/fp8.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <ATen/autocast_mode.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>

#include "muster/base/errors.h"

namespace muster {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr at::ScalarType kForward = at::kFloat8_e4m3fn;
constexpr at::ScalarType kGradient = at::kFloat8_e5m2;

double largest_of(at::ScalarType dtype) { return dtype == kForward ? 448.0 : 57344.0; }

// 8-bit values and their scale (a 0-d float32 tensor on the same device, never read on the host).
struct Quantised {
  at::Tensor values, scale;
  Quantised t() const { return {values.t(), scale}; }
};

at::Tensor scale_of(const at::Tensor& tensor, at::ScalarType dtype) {
  if (tensor.numel() == 0) return at::ones({}, tensor.options().dtype(at::kFloat));
  const auto [smallest, largest] = at::aminmax(tensor);
  const at::Tensor amax = at::maximum(smallest.neg(), largest).to(at::kFloat);
  const double target = largest_of(dtype);
  // Below this the scale would be denormal or 0; NaN propagates.
  return amax.clamp_min(target * std::numeric_limits<float>::min()).div(target);
}

Quantised quantise(const at::Tensor& tensor, const at::Tensor& scale, at::ScalarType dtype) {
  return {tensor.to(at::kFloat).div(scale).to(dtype), scale};
}

Quantised quantise(const at::Tensor& tensor, at::ScalarType dtype) {
  return quantise(tensor, scale_of(tensor, dtype), dtype);
}

// [rows, columns], row-major, zero-padded to multiples.
at::Tensor padded(const at::Tensor& values, int64_t row_multiple, int64_t column_multiple) {
  const auto missing = [](int64_t size, int64_t multiple) {
    return (multiple - size % multiple) % multiple;
  };
  const int64_t rows = missing(values.size(0), row_multiple);
  const int64_t columns = missing(values.size(1), column_multiple);
  const at::Tensor dense = values.contiguous();
  if (rows == 0 && columns == 0) return dense;
  // Pads as bytes, which every device supports: 0 is 0.0 in both formats.
  return at::constant_pad_nd(dense.view(at::kByte), {0, columns, 0, rows})
      .view(dense.scalar_type());
}

struct Product {
  at::ScalarType dtype;  // of the output
  bool scaled_mm;
  bool fast_accumulation;
};

at::Tensor scaled_mm(const Quantised& a, const Quantised& b, const Product& how) {
  const at::Tensor left = padded(a.values, 1, 16), right = padded(b.values, 16, 16);
  try {
    return at::_scaled_mm(left, right.t(), a.scale, b.scale, {}, {}, how.dtype,
                          how.fast_accumulation)
        .narrow(1, 0, b.values.size(0));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    std::throw_with_nested(Error(
        "fp8_linear: at::_scaled_mm does not multiply " + c10::str(left.sizes()) + " by " +
        c10::str(right.sizes()) + " transposed on " + left.device().str() +
        ". It needs an NVIDIA GPU of compute capability 8.9 or newer (Ada, Hopper, Blackwell); "
        "elsewhere set Fp8Options::implementation to Fp8Implementation::emulation, or use "
        "torch::nn::Linear"));
  }
}

// a · bᵀ times both scales.
at::Tensor product(const Quantised& a, const Quantised& b, const Product& how) {
  const bool is_empty = a.values.numel() == 0 || b.values.numel() == 0;
  if (how.scaled_mm && !is_empty) return scaled_mm(a, b, how);
  const at::Tensor sum = at::mm(a.values.to(at::kFloat), b.values.to(at::kFloat).t());
  // One after the other: the product of the scales may exceed float32's range even if the result
  // does not.
  return sum.mul_(a.scale).mul_(b.scale).to(how.dtype);
}

// input [m, k], weight [n, k] -> [m, n]
class Fp8Matmul : public torch::autograd::Function<Fp8Matmul> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, at::ScalarType dtype, bool uses_scaled_mm,
                            bool fast_accumulation) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const Quantised x = quantise(input, kForward), w = quantise(weight, kForward);
    // Saves the weight itself, not its 8-bit copy: it exists anyway, or is unsharded when used.
    context->save_for_backward({weight.requires_grad() ? x.values : at::Tensor(), x.scale,
                                input.requires_grad() ? weight : at::Tensor(), w.scale});
    context->saved_data["input"] = static_cast<int64_t>(input.scalar_type());
    context->saved_data["weight"] = static_cast<int64_t>(weight.scalar_type());
    context->saved_data["scaled_mm"] = uses_scaled_mm;
    return product(x, w, {dtype, uses_scaled_mm, fast_accumulation});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (torch::GradMode::is_enabled()) {
      throw Error(
          "fp8_linear has no second derivatives, so backward() with create_graph does not work. "
          "Use torch::nn::Linear for this layer");
    }
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const variable_list saved = context->get_saved_variables();
    const auto how = [&](const char* of) {
      return Product{static_cast<at::ScalarType>(context->saved_data[of].toInt()),
                     context->saved_data["scaled_mm"].toBool(), false};
    };
    const Quantised g = quantise(gradients[0], kGradient);
    at::Tensor of_input, of_weight;
    if (context->needs_input_grad(0)) {
      const Quantised w = quantise(saved[2], saved[3], kForward);
      of_input = product(g, w.t(), how("input"));
    }
    if (context->needs_input_grad(1)) {
      of_weight = product(g.t(), Quantised{saved[0], saved[1]}.t(), how("weight"));
    }
    return {of_input, of_weight, {}, {}, {}};
  }
};

void require_fitting(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const auto require = [](bool fits, const std::string& what) {
    if (!fits) throw std::invalid_argument("fp8_linear: " + what);
  };
  require(input.defined() && weight.defined(), "input or weight is undefined");
  require(weight.dim() == 2,
          "weight has the shape " + c10::str(weight.sizes()) + ", not [out, in]");
  require(input.dim() >= 1 && input.size(-1) == weight.size(1),
          "input of shape " + c10::str(input.sizes()) + " does not end in the weight's " +
              std::to_string(weight.size(1)) + " input features");
  require(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)),
          "bias has the shape " + (bias.defined() ? c10::str(bias.sizes()) : "") + ", not [" +
              std::to_string(weight.size(0)) + "]");
  for (const at::Tensor& tensor : {input, weight, bias}) {
    if (!tensor.defined()) continue;
    const at::ScalarType dtype = tensor.scalar_type();
    require(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
            std::string("a tensor is ") + c10::toString(dtype) +
                "; supported are Float, BFloat16 and Half");
    require(tensor.device() == input.device(),
            "input is on " + input.device().str() + ", weight or bias on " + tensor.device().str());
  }
}

}  // namespace

at::Tensor fp8_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const Fp8Options& options) {
  require_fitting(input, weight, bias);
  const at::DeviceType device = input.device().type();
  at::ScalarType dtype = input.scalar_type();
  if (at::autocast::is_autocast_enabled(device)) dtype = at::autocast::get_autocast_dtype(device);
  const bool uses_scaled_mm =
      options.implementation == Fp8Implementation::scaled_mm ||
      (options.implementation == Fp8Implementation::automatic && input.is_cuda());
  std::vector<int64_t> shape = input.sizes().vec();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  shape.back() = weight.size(0);
  at::Tensor output = Fp8Matmul::apply(input.to(dtype).reshape({rows, weight.size(1)}), weight,
                                       dtype, uses_scaled_mm, options.fast_accumulation);
  if (bias.defined()) output = output + bias.to(dtype);
  return output.reshape(shape);
}

Fp8LinearImpl::Fp8LinearImpl(const Fp8LinearOptions& with) : options(with) {
  if (options.in_features < 1 || options.out_features < 1) {
    throw std::invalid_argument("Fp8Linear: in_features is " + std::to_string(options.in_features) +
                                " and out_features is " + std::to_string(options.out_features) +
                                "; both must be at least 1");
  }
  // Qualified, because a virtual call in a constructor would not reach a derived class.
  Fp8LinearImpl::reset();
}

void Fp8LinearImpl::reset() {
  weight = register_parameter("weight", torch::empty({options.out_features, options.in_features}));
  bias = options.bias ? register_parameter("bias", torch::empty(options.out_features))
                      : register_parameter("bias", {}, /*requires_grad=*/false);
  reset_parameters();
}

// The same random numbers as torch::nn::LinearImpl.
void Fp8LinearImpl::reset_parameters() {
  torch::nn::init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(options.in_features));
  torch::nn::init::uniform_(bias, -bound, bound);
}

void Fp8LinearImpl::pretty_print(std::ostream& stream) const {
  stream << "muster::Fp8Linear(in_features=" << options.in_features
         << ", out_features=" << options.out_features << ", bias=" << std::boolalpha << options.bias
         << ")";
}

at::Tensor Fp8LinearImpl::forward(const at::Tensor& input) {
  return fp8_linear(input, weight, bias, options.fp8);
}

}  // namespace muster
