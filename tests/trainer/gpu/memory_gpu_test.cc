// 8-bit products on tensor cores, activation checkpointing and deferred initialization on an NVIDIA
// GPU. Without a GPU each test is skipped with "no GPU here".
#include <gtest/gtest.h>
#include <muster/base/errors.h>
#include <muster/device/random_state.h>
#include <muster/memory/activation_checkpoint.h>
#include <muster/memory/deferred_init.h>
#include <muster/precision/autocast.h>
#include <muster/precision/fp8.h>

#include <string>

namespace muster {
namespace {

class MemoryOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  }
  const at::Device device{at::kCUDA, 0};
};

// The 8-bit numbers are the same, but tensor cores accumulate with fewer bits.
void expect_near(const at::Tensor& got, const at::Tensor& wanted, double relative) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const double largest = wanted.abs().max().item<double>();
  EXPECT_LE((got - wanted).abs().max().item<double>(), relative * largest);
}

struct Gradients {
  at::Tensor output, input, weight;
};

Gradients run(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& gradient,
              const Fp8Options& options) {
  const at::Tensor x = input.detach().requires_grad_(), w = weight.detach().requires_grad_();
  const at::Tensor output = fp8_linear(x, w, {}, options);
  output.backward(gradient);
  return {output.detach(), x.grad(), w.grad()};
}

TEST_F(MemoryOnGpu, ScaledProductsEqualTheirEmulation) {
  torch::manual_seed(1);
  // The second is padded in all three sizes.
  for (const auto& [rows, in, out] : {std::tuple(256, 512, 128), std::tuple(37, 50, 19)}) {
    const at::Tensor input = torch::randn({rows, in}, device);
    const at::Tensor weight = torch::randn({out, in}, device);
    const at::Tensor gradient = torch::randn({rows, out}, device);
    const Gradients emulated =
        run(input, weight, gradient, {.implementation = Fp8Implementation::emulation});
    Gradients scaled;
    try {
      scaled = run(input, weight, gradient, {.fast_accumulation = false});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("8.9"), std::string::npos) << error.what();
      GTEST_SKIP() << "no 8-bit products on this GPU: " << error.what();
    }
    expect_near(scaled.output, emulated.output, 2e-3);
    expect_near(scaled.input, emulated.input, 2e-3);
    expect_near(scaled.weight, emulated.weight, 2e-3);
  }
}

TEST_F(MemoryOnGpu, ALayerIn8BitsLearnsUnderAutocast) {
  torch::manual_seed(2);
  Fp8Linear layer(64, 32);
  layer->to(device);
  torch::optim::SGD optimizer(layer->parameters(), 0.3);
  const at::Tensor inputs = torch::randn({128, 64}, device);
  const at::Tensor targets = inputs.slice(1, 0, 32).sin();
  double first = 0, last = 0;
  try {
    for (int step = 0; step < 100; ++step) {
      at::Tensor loss;
      {
        const Autocast region(at::kCUDA, Precision::bf16);
        loss = torch::mse_loss(layer(inputs).to(at::kFloat), targets);
      }
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
  } catch (const Error& error) {
    GTEST_SKIP() << "no 8-bit products on this GPU: " << error.what();
  }
  EXPECT_LT(last, first / 2);
}

TEST_F(MemoryOnGpu, ACheckpointedPartDrawsTheSameMasks) {
  set_seed(3);
  const at::Tensor x = torch::ones({10000}, device).requires_grad_();
  const at::Tensor y =
      checkpoint([](const at::Tensor& x) { return torch::dropout(x, 0.5, true); }, x);
  const at::Tensor before = random_state(device);
  y.sum().backward();
  EXPECT_TRUE(random_state(device).equal(before));
  EXPECT_TRUE(x.grad().equal(y.detach()));
}

TEST_F(MemoryOnGpu, ADeferredModuleEqualsOneThatWasMoved) {
  set_seed(4);
  torch::nn::LSTM direct(torch::nn::LSTMOptions(8, 16));
  direct->to(device);
  set_seed(4);
  auto deferred = deferred_init([] { return torch::nn::LSTM(torch::nn::LSTMOptions(8, 16)); });
  materialize_in_place(deferred, device);
  const auto wanted = direct->parameters(), has = deferred->parameters();
  ASSERT_EQ(wanted.size(), has.size());
  for (size_t i = 0; i < has.size(); ++i) {
    EXPECT_EQ(has[i].device(), device);
    EXPECT_TRUE(has[i].equal(wanted[i]));
  }
}

}  // namespace
}  // namespace muster
