// The SDK on an NVIDIA GPU: NCCL in a world of one, mixed precision, fused kernels, checkpoints
// from device memory. Without a GPU each test is skipped with "no GPU here".
#include <limits>

#include <gtest/gtest.h>
#include <muster/trainer.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "parallel/process_group.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  }
};

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(32, 128), torch::nn::GELU(),
                               torch::nn::Linear(128, 8));
}

struct Task {
  explicit Task(at::Device device) {
    torch::manual_seed(1);
    inputs = torch::randn({256, 32}, device);
    targets = inputs.slice(1, 0, 8).sin();
  }
  at::Tensor loss(const at::Tensor& outputs) const {
    return torch::mse_loss(outputs.to(at::kFloat), targets);
  }
  at::Tensor inputs, targets;
};

// The loss after 60 steps.
double train(const AcceleratorOptions& options) {
  Accelerator accelerator(options);
  EXPECT_TRUE(accelerator.device().is_cuda());
  const Task task(accelerator.device());
  accelerator.set_seed(3);
  auto net = make_net();
  auto [model, optimizer] = accelerator.prepare(net, AdamW(net->parameters(), {.lr = 3e-3}));
  double last = 0;
  for (int step = 0; step < 60; ++step) {
    const at::Tensor loss = task.loss(model(task.inputs));
    accelerator.backward(loss);
    accelerator.clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    last = loss.item<double>();
  }
  if (GradScaler* scaler = accelerator.scaler()) {
    EXPECT_GT(scaler->get_scale(), 0);
  }
  return last;
}

TEST_F(OnGpu, MixedPrecisionLearnsAsFloat32Does) {
  const double fp32 = train({.mixed_precision = Precision::fp32});
  EXPECT_NEAR(train({.mixed_precision = Precision::bf16}), fp32, 0.05 * fp32 + 0.01);
  EXPECT_NEAR(train({.mixed_precision = Precision::fp16}), fp32, 0.05 * fp32 + 0.01);
}

TEST_F(OnGpu, AnOverflowSkipsTheStepAndHalvesTheScale) {
  Accelerator accelerator({.mixed_precision = Precision::fp16});
  auto net = make_net();
  auto [model, optimizer] = accelerator.prepare(net, AdamW(net->parameters(), {.lr = 1e-3}));
  const at::Tensor before = net->parameters()[0].detach().clone();
  const double scale = accelerator.scaler()->get_scale();
  const at::Tensor inputs = torch::full({4, 32}, 1.0, accelerator.device());
  accelerator.backward((model(inputs) * std::numeric_limits<float>::infinity()).sum());
  optimizer.step();
  EXPECT_TRUE(accelerator.optimizer_step_was_skipped());
  EXPECT_TRUE(net->parameters()[0].equal(before));
  EXPECT_EQ(accelerator.scaler()->get_scale(), scale / 2);
}

template <typename Optimizer, typename Options>
void expect_fused_equals_foreach(Options options) {
  const at::Device device(at::kCUDA, 0);
  std::vector<at::Tensor> results;
  for (const Implementation implementation : {Implementation::fused, Implementation::foreach}) {
    torch::manual_seed(5);
    auto net = make_net();
    net->to(device);
    const Task task(device);
    options.implementation = implementation;
    Optimizer optimizer(net->parameters(), options);
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      task.loss(net->forward(task.inputs)).backward();
      optimizer.step();
    }
    results.push_back(net->parameters()[0].detach().clone());
  }
  EXPECT_TRUE(results[0].allclose(results[1], 1e-4, 1e-5));
}

TEST_F(OnGpu, FusedOptimizersEqualTheirForeachForms) {
  expect_fused_equals_foreach<AdamW>(AdamWOptions{.lr = 1e-3});
  expect_fused_equals_foreach<Adam>(AdamOptions{.lr = 1e-3});
  expect_fused_equals_foreach<SGD>(SGDOptions{.lr = 1e-2, .momentum = 0.9});
}

TEST_F(OnGpu, AnAsynchronousCheckpointHoldsTheMomentOfItsCall) {
  const TemporaryDirectory directory;
  AcceleratorOptions options{.checkpoint_dir = directory.path()};
  options.checkpoint.asynchronous = true;
  at::Tensor saved;
  {
    Accelerator accelerator(options);
    auto net = make_net();
    auto [model, optimizer] = accelerator.prepare(net, SGD(net->parameters(), {.lr = 0.1}));
    const Task task(accelerator.device());
    for (int step = 1; step <= 6; ++step) {
      accelerator.backward(task.loss(model(task.inputs)));
      optimizer.step();
      optimizer.zero_grad();
      if (step != 3) continue;
      saved = net->parameters()[0].detach().clone();
      accelerator.save_state(step);
    }
    accelerator.wait_for_checkpoint();
    EXPECT_FALSE(net->parameters()[0].equal(saved));
  }
  Accelerator accelerator(options);
  auto net = make_net();
  auto [model, optimizer] = accelerator.prepare(net, SGD(net->parameters(), {.lr = 0.1}));
  ASSERT_EQ(accelerator.load_state(), 3);
  EXPECT_TRUE(net->parameters()[0].equal(saved));
}

#ifdef MUSTER_WITH_NCCL
TEST_F(OnGpu, NcclReducesInAWorldOfOne) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, 0, 1);
  add_nccl_backend(group, store, {std::chrono::minutes(1), std::chrono::minutes(1)});
  std::vector<at::Tensor> tensors = {torch::arange(8, at::Device(at::kCUDA, 0)).to(at::kFloat)};
  const at::Tensor before = tensors[0].clone();
  group->getBackend(at::kCUDA)->allreduce(tensors)->wait();
  EXPECT_TRUE(tensors[0].equal(before));
}
#endif

}  // namespace
}  // namespace muster
