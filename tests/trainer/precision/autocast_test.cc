// Autocast regions: what they compute in, that they end, and that they keep nothing.
#include "muster/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace muster {
namespace {

at::ScalarType product_dtype() {
  return torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type();
}

// The cache holds a weak reference to a weight whose cast it contains.
size_t weak_references(const at::Tensor& tensor) {
  return tensor.getIntrusivePtr().weak_use_count();
}

TEST(Precision, TextsAreThoseOfAccelerate) {
  EXPECT_EQ(parse_precision("no"), Precision::fp32);
  EXPECT_EQ(parse_precision("fp32"), Precision::fp32);
  EXPECT_EQ(parse_precision("fp16"), Precision::fp16);
  EXPECT_EQ(parse_precision("bf16"), Precision::bf16);
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    EXPECT_EQ(parse_precision(precision_name(precision)), precision);
  }
  try {
    parse_precision("fp8");
    FAIL() << "fp8 was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("'fp8'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
  }
}

// As docs/trainer.md explains: LibTorch's linear layer adds the bias of 3-d inputs in a separate
// operation, unlike at::linear and Python.
TEST(LinearLayers, OfLibTorchRoundOnceMoreForInputsOfThreeDimensions) {
  torch::manual_seed(1);
  torch::nn::Linear layer(64, 64);
  layer->to(at::kBFloat16);
  const at::Tensor input = torch::randn({4, 8, 64}).to(at::kBFloat16);
  const at::Tensor python = at::linear(input, layer->weight, layer->bias);
  EXPECT_FALSE(layer->forward(input).equal(python));
  EXPECT_TRUE(layer->forward(input.view({32, 64})).equal(python.view({32, 64})));
}

TEST(Autocast, RegionsNestAndEachOneEnds) {
  EXPECT_EQ(product_dtype(), at::kFloat);
  {
    const Autocast outer(at::kCPU, Precision::bf16);
    EXPECT_EQ(product_dtype(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, Precision::fp16);
      EXPECT_EQ(product_dtype(), at::kHalf);
      {
        const Autocast off(at::kCPU, Precision::bf16, {.enabled = false});
        EXPECT_EQ(product_dtype(), at::kFloat);
      }
      {
        const Autocast full(at::kCPU, Precision::fp32);
        EXPECT_EQ(product_dtype(), at::kFloat);
      }
      EXPECT_EQ(product_dtype(), at::kHalf);
    }
    EXPECT_EQ(product_dtype(), at::kBFloat16);
  }
  EXPECT_EQ(product_dtype(), at::kFloat);
}

TEST(Autocast, AnExceptionEndsTheRegionAsWell) {
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  EXPECT_THROW(
      {
        const Autocast outer(at::kCPU, Precision::fp16, {.cache_enabled = false});
        const Autocast inner(at::kCPU, Precision::bf16);
        torch::mm(torch::ones({2, 3}), torch::ones({2, 3}));
      },
      c10::Error);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), before);
  EXPECT_EQ(at::autocast::increment_nesting(), 1);
  at::autocast::decrement_nesting();
}

TEST(Autocast, BelongsToTheThread) {
  const Autocast region(at::kCPU, Precision::bf16);
  at::ScalarType elsewhere = at::kDouble, inside = at::kDouble;
  std::thread([&] {
    elsewhere = product_dtype();
    const Autocast own(at::kCPU, Precision::fp16);
    inside = product_dtype();
  }).join();
  EXPECT_EQ(elsewhere, at::kFloat);
  EXPECT_EQ(inside, at::kHalf);
  EXPECT_EQ(product_dtype(), at::kBFloat16);
}

TEST(Autocast, CastsOfWeightsAreKeptForTheOutermostRegionOnly) {
  const at::Tensor weight = torch::ones({2, 2}).requires_grad_();
  const at::Tensor input = torch::ones({2, 2});
  const size_t alone = weak_references(weight);
  {
    const Autocast outer(at::kCPU, Precision::bf16);
    {
      const Autocast inner(at::kCPU, Precision::bf16);
      torch::mm(input, weight);
    }
    EXPECT_GT(weak_references(weight), alone);
    { const Autocast off(at::kCPU, Precision::fp32); }
    EXPECT_GT(weak_references(weight), alone);
  }
  EXPECT_EQ(weak_references(weight), alone);
  {
    const Autocast uncached(at::kCPU, Precision::bf16, {.cache_enabled = false});
    torch::mm(input, weight);
    EXPECT_EQ(weak_references(weight), alone);
  }
}

TEST(Autocast, GradientsComeBackInFloat) {
  const at::Tensor weight = torch::ones({2, 2}).requires_grad_();
  at::Tensor loss;
  {
    const Autocast region(at::kCPU, Precision::bf16);
    const at::Tensor hidden = torch::mm(torch::ones({2, 2}), weight);
    loss = torch::mm(hidden, weight).sum();
  }
  loss.backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(weight.grad()[0][0].item<float>(), 8);
}

}  // namespace
}  // namespace muster
