// Short accumulation windows and tied weights, in every sharding stage, against numbers known in
// advance.
#include <gtest/gtest.h>
#include <muster/optim/ema.h>
#include <muster/trainer.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

// Samples 1, 2, …, count, as a stream of unknown length.
struct Stream {
  int64_t count = 0, given = 0;
  void reset(int64_t) { given = 0; }
  std::optional<at::Tensor> next() {
    if (given == count) return std::nullopt;
    return torch::full({1}, static_cast<double>(++given));
  }
};

// Its gradient is forward's input.
struct LineImpl : torch::nn::Module {
  LineImpl() { weight = register_parameter("weight", torch::zeros({40})); }
  at::Tensor forward(const at::Tensor& x) { return (weight * x).mean() * 40; }
  at::Tensor weight;
};
TORCH_MODULE(Line);

class EveryStage : public ::testing::TestWithParam<ZeroStage> {};
INSTANTIATE_TEST_SUITE_P(Of, EveryStage,
                         ::testing::Values(ZeroStage::none, ZeroStage::zero1, ZeroStage::zero2,
                                           ZeroStage::zero3),
                         [](const auto& info) { return std::string(zero_stage_name(info.param)); });

// What a loop does in a micro-batch. Line is trained by SGD with lr 1, so a weight is minus the sum
// of the windows' means.
struct Loop {
  explicit Loop(const AcceleratorOptions& options) : accelerator(options) {}

  double value_of(Line& net, PreparedModel<Line>& prepared) {
    const auto full = accelerator.full_parameters(prepared);
    return net->weight[7].item<double>();
  }

  Accelerator accelerator;
  Line first, second;
  PreparedModel<Line> a = accelerator.prepare(first), b = accelerator.prepare(second);
  PreparedOptimizer steps_a = accelerator.prepare(SGD(first->parameters(), {.lr = 1.0}));
  PreparedOptimizer steps_b = accelerator.prepare(SGD(second->parameters(), {.lr = 1.0}));
  DataLoader<Stream> loader =
      accelerator.prepare(DataLoader(Stream{.count = 6}, {.batch_size = 1}));
};

AcceleratorOptions windows_of_four(ZeroStage stage) {
  return {.gradient_accumulation = {.num_steps = 4}, .sharding = {.stage = stage}};
}

// Windows of 1, 2, 3, 4 and 5, 6: their means are 2.5 and 5.5.
TEST_P(EveryStage, AShortWindowCountsTwoBackwardsOfTwoModelsOnceEach) {
  Loop loop(windows_of_four(GetParam()));
  for (auto& x : loop.loader) {
    auto window = loop.accelerator.accumulate(loop.a, loop.b);
    loop.accelerator.backward(loop.a(x));
    loop.steps_a.step();
    loop.steps_a.zero_grad();
    loop.accelerator.backward(loop.b(3 * x));
    loop.steps_b.step();
    loop.steps_b.zero_grad();
  }
  EXPECT_NEAR(loop.value_of(loop.first, loop.a), -8.0, 1e-5);
  EXPECT_NEAR(loop.value_of(loop.second, loop.b), -24.0, 1e-5);
}

TEST_P(EveryStage, AShortWindowCountsTwoLossesOfOneModelOnceEach) {
  Loop loop(windows_of_four(GetParam()));
  for (auto& x : loop.loader) {
    auto window = loop.accelerator.accumulate(loop.a);
    loop.accelerator.backward(loop.a(x));
    loop.accelerator.backward(loop.a(10 * x));
    loop.steps_a.step();
    loop.steps_a.zero_grad();
  }
  EXPECT_NEAR(loop.value_of(loop.first, loop.a), -88.0, 1e-4);
}

// A linear layer with a bias, whose weight is registered under a second name.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    weight = register_parameter("weight", torch::zeros({64}));
    again = register_parameter("again", weight);
    bias = register_parameter("bias", torch::zeros({16}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return (weight * x).sum() + (again * x).sum() + bias.sum();
  }
  at::Tensor weight, again, bias;
};
TORCH_MODULE(Tied);

TEST_P(EveryStage, ATiedWeightIsClippedSteppedAndCountedOnce) {
  for (const bool ours : {true, false}) {
    Accelerator accelerator({.sharding = {.stage = GetParam()}});
    Tied net;
    auto model = accelerator.prepare(net);
    auto optimizer = ours ? accelerator.prepare(SGD(net->parameters(), {.lr = 1.0}))
                          : accelerator.prepare(torch::optim::SGD(net->parameters(), 1.0));
    EXPECT_EQ(optimizer.param_groups()[0].params().size(), 2u);
    accelerator.backward(model(torch::ones({64})));
    // 64 twos and 16 ones.
    const double norm = std::sqrt(64 * 4.0 + 16);
    const MemoryUsage usage = accelerator.memory_usage();
    EXPECT_EQ(usage.parameters, 80 * 4);
    EXPECT_EQ(usage.gradients, 80 * 4);
    EXPECT_NEAR(accelerator.clip_grad_norm_(net->parameters(), norm / 2).item<double>(), norm,
                1e-4);
    optimizer.step();
    optimizer.zero_grad();
    const auto full = accelerator.full_parameters(model);
    EXPECT_NEAR(net->weight[3].item<double>(), -1.0, 1e-5);
    EXPECT_NEAR(net->bias[3].item<double>(), -0.5, 1e-5);
  }
}

TEST(GradScaler, UnscalesATiedWeightOnceAlsoOfAnOptimizerThatWasNotPrepared) {
  Tied net;
  torch::optim::SGD optimizer(net->parameters(), 1.0);
  GradScaler scaler({.init_scale = 4.0});
  scaler.scale(net->forward(torch::ones({64}))).backward();
  scaler.unscale_(optimizer);
  EXPECT_EQ(net->weight.grad()[0].item<float>(), 2.0f);
}

// Two optimizers in fp16: one of them meets an overflow in the second of three steps.
struct TwoScaled {
  explicit TwoScaled(const AcceleratorOptions& options) : accelerator(options) {}

  void train(const std::function<void()>& between = [] {}) {
    const double infinite = std::numeric_limits<double>::infinity();
    for (const double x : {1.0, infinite, 1.0}) {
      accelerator.backward(a(torch::full({1}, x)) + b(torch::ones({1})));
      norms.push_back(accelerator.clip_grad_norm_(first->parameters(), 1e9).item<double>());
      norms.push_back(accelerator.clip_grad_norm_(second->parameters(), 1e9).item<double>());
      steps_a.step();
      between();
      steps_b.step();
      rate_a.step();
      rate_b.step();
      skipped.push_back({steps_a.step_was_skipped(), steps_b.step_was_skipped()});
      scales.push_back(accelerator.scaler()->get_scale());
      trackers.push_back(accelerator.scaler()->get_growth_tracker());
      steps_a.zero_grad();
      steps_b.zero_grad();
    }
  }
  double value_of(Line& net, PreparedModel<Line>& prepared) {
    const auto full = accelerator.full_parameters(prepared);
    return net->weight[7].item<double>();
  }

  Accelerator accelerator;
  Line first, second;
  PreparedModel<Line> a = accelerator.prepare(first), b = accelerator.prepare(second);
  PreparedOptimizer steps_a = accelerator.prepare(SGD(first->parameters(), {.lr = 1.0}));
  PreparedScheduler rate_a = accelerator.prepare(constant_schedule());
  PreparedOptimizer steps_b = accelerator.prepare(SGD(second->parameters(), {.lr = 1.0}));
  PreparedScheduler rate_b = accelerator.prepare(constant_schedule());
  std::vector<double> scales, norms;
  std::vector<int64_t> trackers;
  std::vector<std::pair<bool, bool>> skipped;
};

AcceleratorOptions scaled(ZeroStage stage) {
  return {.mixed_precision = Precision::fp16,
          .grad_scaler = {.init_scale = 64, .growth_interval = 100},
          .sharding = {.stage = stage}};
}

TEST_P(EveryStage, TwoOptimizersShareOneUpdateOfTheScaleAndEachScheduleItsOwnSkip) {
  const double norm = std::sqrt(40.0);
  // Reading the scale between the steps, as one rank alone may, changes nothing.
  for (const bool reads_between : {false, true}) {
    TwoScaled run(scaled(GetParam()));
    run.train([&] {
      if (reads_between) run.accelerator.scaler()->get_scale();
    });
    EXPECT_EQ(run.scales, (std::vector<double>{64, 32, 32}));
    EXPECT_EQ(run.trackers, (std::vector<int64_t>{1, 0, 1}));
    EXPECT_EQ(run.skipped, (std::vector<std::pair<bool, bool>>{{0, 0}, {1, 0}, {0, 0}}));
    for (const size_t i : {0, 1, 3, 4, 5}) EXPECT_NEAR(run.norms[i], norm, 1e-5) << i;
    EXPECT_NEAR(run.value_of(run.first, run.a), -2.0, 1e-6);
    EXPECT_NEAR(run.value_of(run.second, run.b), -3.0, 1e-6);
    EXPECT_EQ(run.rate_a.unwrap().last_step(), 2);
    EXPECT_EQ(run.rate_b.unwrap().last_step(), 3);
  }
}

TEST(AccelerateCompat, UpdatesTheScaleAtEachOptimizersStep) {
  Accelerator accelerator(accelerate_compat(scaled(ZeroStage::none)));
  Line first, second;
  auto [a, b] = accelerator.prepare(first, second);
  auto steps_a = accelerator.prepare(SGD(first->parameters(), {.lr = 1.0}));
  auto steps_b = accelerator.prepare(SGD(second->parameters(), {.lr = 1.0}));
  const double infinite = std::numeric_limits<double>::infinity();
  accelerator.backward(a(torch::full({1}, infinite)) + b(torch::ones({1})));
  steps_a.step();
  EXPECT_EQ(accelerator.scaler()->get_scale(), 32);
  steps_b.step();
  EXPECT_EQ(accelerator.scaler()->get_growth_tracker(), 1);
  // The gradient was multiplied by 64 and divided by 32.
  EXPECT_EQ(second->weight[7].item<double>(), -2.0);
}

TEST(AccelerateCompat, AOneCycleScheduleStaysAtItsEnd) {
  for (const bool compat : {true, false}) {
    Accelerator accelerator(compat ? accelerate_compat({}) : AcceleratorOptions{});
    Line net;
    PreparedModel<Line> model = accelerator.prepare(net);
    PreparedOptimizer steps =
        accelerator.prepare(SGD(net->parameters(), {.lr = 1.0, .momentum = 0.9}));
    PreparedScheduler rate =
        accelerator.prepare(one_cycle_schedule({.total_steps = 3, .max_lr = 0.1}));
    const auto step = [&] {
      accelerator.backward(model(torch::ones({1})));
      steps.step();
      rate.step();
      steps.zero_grad();
    };
    for (int i = 0; i < 3; ++i) step();
    const double last = rate.unwrap().get_last_lr()[0];
    if (!compat) {
      EXPECT_THROW(step(), Error);
      continue;
    }
    for (int i = 0; i < 3; ++i) step();
    EXPECT_EQ(rate.unwrap().last_step(), 3);
    EXPECT_EQ(rate.unwrap().get_last_lr()[0], last);
  }
}

// Trains one step per sample and saves; the steps that the step times were logged with.
std::vector<int64_t> logged_steps(const std::filesystem::path& directory, bool resumes) {
  const std::string file = directory / (resumes ? "second.jsonl" : "first.jsonl");
  {
    Accelerator accelerator({.checkpoint_dir = directory / "checkpoints",
                             .metrics_file = file,
                             .log_step_times_every = 1});
    Line net;
    PreparedModel<Line> model = accelerator.prepare(net);
    PreparedOptimizer steps = accelerator.prepare(SGD(net->parameters(), {.lr = 1.0}));
    DataLoader<Stream> loader =
        accelerator.prepare(DataLoader(Stream{.count = 3}, {.batch_size = 1}));
    EXPECT_EQ(accelerator.load_state().value_or(0), resumes ? 3 : 0);
    for (auto& x : loader) {
      accelerator.backward(model(x));
      steps.step();
      steps.zero_grad();
    }
    if (!resumes) accelerator.save_state(3);
  }
  std::vector<int64_t> logged;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"time/step\"") == std::string::npos) continue;
    const size_t at = line.find("\"step\":");
    logged.push_back(std::stoll(line.substr(at + std::string("\"step\":").size())));
  }
  return logged;
}

TEST(StepTimes, AResumedRunCountsStepsOn) {
  std::string directory = std::filesystem::temp_directory_path() / "muster-steps-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  EXPECT_EQ(logged_steps(directory, false), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(logged_steps(directory, true), (std::vector<int64_t>{4, 5, 6}));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace muster
