// 8-bit linear layers against an independent emulation: rounding by powers of two, sums in float64.
// It shares only the recipe of fp8.h with the implementation.
#include "muster/precision/fp8.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "muster/base/errors.h"
#include "muster/precision/autocast.h"
#include "support/error_text.h"

namespace muster {
namespace {

struct Format {
  int mantissa_bits;
  int smallest_exponent;  // of normal numbers
  float largest;
};
constexpr Format kE4m3 = {3, -6, 448};
constexpr Format kE5m2 = {2, -14, 57344};

double rounded(double value, const Format& format) {
  if (value == 0) return 0;
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
  return std::nearbyint(value / step) * step;  // to nearest even
}

// A tensor after rounding to 8 bits, in float64.
at::Tensor quantised(const at::Tensor& tensor, const Format& format) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).flatten().contiguous();
  const float* values = flat.const_data_ptr<float>();
  float amax = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) amax = std::max(amax, std::abs(values[i]));
  const float scale =
      std::max(amax, format.largest * std::numeric_limits<float>::min()) / format.largest;
  at::Tensor result = torch::empty(tensor.sizes(), at::kDouble);
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const float quotient = values[i] / scale;
    result.mutable_data_ptr<double>()[i] = rounded(quotient, format) * static_cast<double>(scale);
  }
  return result;
}

struct Values {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

Values expected(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                const at::Tensor& output_gradient) {
  const at::Tensor x = quantised(input, kE4m3).view({-1, input.size(-1)});
  const at::Tensor w = quantised(weight, kE4m3);
  const at::Tensor gradient = output_gradient.reshape({-1, weight.size(0)});
  const at::Tensor g = quantised(gradient, kE5m2);
  return {(x.mm(w.t()) + bias.detach().to(at::kDouble)).view(output_gradient.sizes()),
          g.mm(w).view(input.sizes()), g.t().mm(x), gradient.to(at::kDouble).sum(0)};
}

// Tolerance of float32 sums of at most a few hundred terms, relative to the largest.
void expect_near(const at::Tensor& got, const at::Tensor& wanted, double relative = 2e-6) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const double error = (got.detach().to(at::kDouble) - wanted).abs().max().item<double>();
  EXPECT_LE(error, relative * wanted.abs().max().item<double>());
}

void expect_matches_reference(at::IntArrayRef shape, int64_t out, double magnitude,
                              const Fp8Options& options) {
  torch::manual_seed(3);
  const at::Tensor input = (torch::randn(shape) * magnitude).requires_grad_();
  const at::Tensor weight = (torch::randn({out, shape.back()}) * 0.1).requires_grad_();
  const at::Tensor bias = (torch::randn({out}) * magnitude).requires_grad_();
  const at::Tensor output = fp8_linear(input, weight, bias, options);
  const at::Tensor gradient = torch::randn_like(output) / magnitude;
  output.backward(gradient);
  const Values wanted = expected(input, weight, bias, gradient);
  expect_near(output, wanted.output);
  expect_near(input.grad(), wanted.input_gradient);
  expect_near(weight.grad(), wanted.weight_gradient);
  expect_near(bias.grad(), wanted.bias_gradient);
}

const std::vector<Fp8Options> kBoth = {{.implementation = Fp8Implementation::emulation},
                                       {.implementation = Fp8Implementation::scaled_mm}};

TEST(Fp8Linear, EqualsTheEmulationInFloat64ForwardAndBackward) {
  for (const Fp8Options& options : kBoth) {
    expect_matches_reference({32, 64}, 48, 1, options);
    expect_matches_reference({4, 8, 32}, 16, 1, options);
    expect_matches_reference({16}, 32, 1, options);
  }
}

TEST(Fp8Linear, TakesSizesThatAreNotMultiplesOf16) {
  for (const Fp8Options& options : kBoth) {
    expect_matches_reference({7, 13}, 5, 1, options);
    expect_matches_reference({2, 3, 17}, 33, 1, options);
    expect_matches_reference({1, 1}, 1, 1, options);
  }
}

TEST(Fp8Linear, ScalesNumbersOfAnyMagnitude) {
  for (const double magnitude : {1e-25, 1e-3, 1e6, 1e25}) {
    expect_matches_reference({16, 32}, 16, magnitude, kBoth[0]);
  }
}

TEST(Fp8Linear, IsCoarserThanFloatAndNotByMuch) {
  torch::manual_seed(1);
  const at::Tensor input = torch::randn({64, 256}), weight = torch::randn({32, 256});
  const at::Tensor exact = torch::linear(input, weight);
  const double error = (fp8_linear(input, weight) - exact).norm().item<double>();
  const double relative = error / exact.norm().item<double>();
  // Two operands rounded to 4 significant bits: 2.6 % each (a step of 2^-3, evenly spread).
  EXPECT_GT(relative, 0.01);
  EXPECT_LT(relative, 0.06);
}

TEST(Fp8Linear, ZerosStayZerosAndNothingIsDividedByZero) {
  const at::Tensor input = torch::zeros({4, 16}).requires_grad_();
  const at::Tensor weight = torch::zeros({16, 16}).requires_grad_();
  const at::Tensor output = fp8_linear(input, weight);
  EXPECT_TRUE(output.equal(torch::zeros({4, 16})));
  output.backward(torch::zeros({4, 16}));
  EXPECT_TRUE(weight.grad().equal(torch::zeros({16, 16})));
  EXPECT_TRUE(input.grad().equal(torch::zeros({4, 16})));
  // The smallest representable numbers.
  EXPECT_TRUE(
      fp8_linear(torch::full({1, 16}, 1e-44), torch::ones({1, 16})).isfinite().all().item<bool>());
  EXPECT_EQ(fp8_linear(torch::ones({0, 16}), torch::ones({3, 16})).sizes(),
            at::IntArrayRef({0, 3}));
}

TEST(Fp8Linear, OneNumberThatIsNotFiniteMakesTheWholeProductNan) {
  for (const Fp8Options& options : kBoth) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      at::Tensor input = torch::ones({16, 16});
      const at::Tensor weight = torch::ones({16, 16}).requires_grad_();
      at::Tensor gradient = torch::ones({16, 16});
      gradient[3][4] = bad;
      const at::Tensor output = fp8_linear(input, weight, {}, options);
      EXPECT_TRUE(output.isfinite().all().item<bool>());
      output.backward(gradient);
      EXPECT_TRUE(weight.grad().isnan().all().item<bool>());
      input[0][1] = bad;
      EXPECT_TRUE(fp8_linear(input, weight, {}, options).isnan().all().item<bool>());
    }
  }
}

TEST(Fp8Linear, UnderAutocastComputesFromTheFloatWeightAndGivesAutocastsDtype) {
  torch::manual_seed(5);
  const at::Tensor input = torch::randn({3, 8, 32}).requires_grad_();
  const at::Tensor weight = torch::randn({16, 32}).requires_grad_();
  const at::Tensor bias = torch::randn({16}).requires_grad_();
  at::Tensor output;
  {
    const Autocast region(at::kCPU, Precision::bf16);
    output = fp8_linear(input, weight, bias);
  }
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  const at::Tensor gradient = torch::randn_like(output);
  output.backward(gradient);
  EXPECT_EQ(input.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  const Values wanted = expected(input.detach().to(at::kBFloat16), weight, bias, gradient);
  expect_near(output, wanted.output, 0.01);                 // rounded to bfloat16
  expect_near(input.grad(), wanted.input_gradient, 0.005);  // the same
  expect_near(weight.grad(), wanted.weight_gradient);
}

TEST(Fp8Linear, HalvesGiveHalves) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor input = torch::randn({16, 32}).to(dtype).requires_grad_();
    const at::Tensor weight = torch::randn({16, 32}).to(dtype).requires_grad_();
    const at::Tensor output = fp8_linear(input, weight);
    EXPECT_EQ(output.scalar_type(), dtype);
    const at::Tensor gradient = torch::randn_like(output);
    output.backward(gradient);
    EXPECT_EQ(weight.grad().scalar_type(), dtype);
    const Values wanted = expected(input, weight, torch::zeros({16}), gradient);
    expect_near(output, wanted.output, 0.01);
    expect_near(weight.grad(), wanted.weight_gradient, 0.01);
  }
}

TEST(Fp8Linear, OnlyTheGradientsThatAreAskedForAreMade) {
  const at::Tensor input = torch::randn({16, 16});
  const at::Tensor weight = torch::randn({16, 16}).requires_grad_();
  fp8_linear(input, weight).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  const at::Tensor frozen = torch::randn({16, 16});
  const at::Tensor trained = torch::randn({16, 16}).requires_grad_();
  fp8_linear(trained, frozen).sum().backward();
  EXPECT_TRUE(trained.grad().defined());
  EXPECT_FALSE(fp8_linear(input, frozen).requires_grad());
}

TEST(Fp8Linear, HasTheParametersAndTheStartOfALinearLayer) {
  for (const bool bias : {true, false}) {
    torch::manual_seed(9);
    const torch::nn::Linear linear(torch::nn::LinearOptions(20, 30).bias(bias));
    torch::manual_seed(9);
    Fp8Linear fp8(Fp8LinearOptions{.in_features = 20, .out_features = 30, .bias = bias});
    const auto wanted = linear->named_parameters(), has = fp8->named_parameters();
    ASSERT_EQ(wanted.keys(), has.keys());
    for (const auto& item : wanted) EXPECT_TRUE(item.value().equal(has[item.key()]));
    const auto copy = std::dynamic_pointer_cast<Fp8LinearImpl>(fp8->clone());
    ASSERT_NE(copy, nullptr);
    EXPECT_TRUE(copy->forward(torch::ones({2, 20})).equal(fp8(torch::ones({2, 20}))));
  }
  EXPECT_EQ(c10::str(Fp8Linear(2, 3)),
            "muster::Fp8Linear(in_features=2, out_features=3, bias=true)");
}

TEST(Fp8Linear, WhatDoesNotFitIsNamed) {
  const at::Tensor weight = torch::ones({4, 8});
  EXPECT_NE(error_of([&] {
              fp8_linear(torch::ones({2, 7}), weight);
            }).find("[2, 7]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              fp8_linear(torch::ones({2, 8}), weight, torch::ones({5}));
            }).find("[5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              fp8_linear(torch::ones({2, 8}, at::kDouble), weight);
            }).find("Double"),
            std::string::npos);
  EXPECT_NE(error_of([] { Fp8Linear(0, 3); }).find("in_features is 0"), std::string::npos);
  const at::Tensor trained = torch::ones({4, 8}).requires_grad_();
  EXPECT_NE(error_of([&] {
              torch::autograd::grad({fp8_linear(torch::ones({2, 8}), trained).square().sum()},
                                    {trained}, {}, {}, /*create_graph=*/true);
            }).find("second derivatives"),
            std::string::npos);
}

// Classes of points by a random network; the loss of the last steps of a small net.
template <typename Layer>
double trained_loss() {
  torch::manual_seed(17);
  torch::nn::Sequential teacher(torch::nn::Linear(32, 64), torch::nn::Tanh(),
                                torch::nn::Linear(64, 8));
  const at::Tensor inputs = torch::randn({1024, 32});
  const at::Tensor classes = teacher->forward(inputs).argmax(1).detach();
  torch::manual_seed(18);
  torch::nn::Sequential net(Layer(32, 128), torch::nn::ReLU(), Layer(128, 64), torch::nn::ReLU(),
                            Layer(64, 8));
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-3));
  double sum = 0;
  for (int step = 0; step < 240; ++step) {
    const int64_t begin = step * 128 % 1024;
    optimizer.zero_grad();
    const at::Tensor loss = torch::cross_entropy_loss(
        net->forward(inputs.slice(0, begin, begin + 128)), classes.slice(0, begin, begin + 128));
    loss.backward();
    optimizer.step();
    if (step >= 232) sum += loss.item<double>() / 8;
  }
  return sum;
}

TEST(Fp8Linear, ASmallNetLearnsNearlyAsInFloat32) {
  const double fp32 = trained_loss<torch::nn::Linear>();
  const double fp8 = trained_loss<Fp8Linear>();
  RecordProperty("fp32", std::to_string(fp32));
  RecordProperty("fp8", std::to_string(fp8));
  EXPECT_LT(fp32, 0.6);  // it learned: log(8) is 2.08
  EXPECT_NEAR(fp8, fp32, 0.05);
}

}  // namespace
}  // namespace muster
