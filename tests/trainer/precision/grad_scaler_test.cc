// The gradient scaler against torch.amp.GradScaler, and its states and errors.
#include "muster/precision/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/errors.h"
#include "muster/optim/clip_grad.h"
#include "muster/optim/optimizers.h"
#include "optim/twin.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using nlohmann::json;
using AnyOptimizer = std::unique_ptr<torch::optim::Optimizer>;

struct Case {
  std::string name;
  GradScalerOptions scaler;
  Implementation implementation = Implementation::fused;
  bool clips = false;
  bool torchs_own = false;
  std::vector<std::string> pattern = {};
};

// Long runs without overflow that let the scale grow, single overflows, and several in a row.
std::vector<std::string> rough_ride() {
  std::vector<std::string> pattern(40, "fine");
  for (const int step : {0, 1, 9, 23, 24, 25}) pattern[step] = step % 2 == 0 ? "inf" : "nan";
  return pattern;
}

std::vector<Case> all_cases() {
  const GradScalerOptions quick = {.init_scale = 1024, .growth_interval = 4};
  const GradScalerOptions odd = {
      .init_scale = 100, .growth_factor = 1.7, .backoff_factor = 0.3, .growth_interval = 3};
  return {{"fused", quick, Implementation::fused, false, false, rough_ride()},
          {"fused clipped", quick, Implementation::fused, true, false, rough_ride()},
          {"plain", odd, Implementation::plain, false, false, rough_ride()},
          {"foreach clipped", odd, Implementation::foreach, true, false, rough_ride()},
          {"defaults", {}, Implementation::fused, false, false, {"inf", "fine", "fine", "nan"}}};
}

json describe(const Case& each) {
  return {{"name", each.name},
          {"scaler",
           {{"init_scale", each.scaler.init_scale},
            {"growth_factor", each.scaler.growth_factor},
            {"backoff_factor", each.scaler.backoff_factor},
            {"growth_interval", each.scaler.growth_interval}}},
          {"optimizers", {"AdamW", "SGD"}},
          {"options",
           {{"lr", 0.01},
            {"weight_decay", 0.01},
            {"fused", each.implementation == Implementation::fused},
            {"foreach", each.implementation == Implementation::foreach}}},
          {"clips", each.clips},
          {"pattern", each.pattern}};
}

Tensors make_input() {
  torch::manual_seed(11);
  return {{"first", torch::randn({6})}, {"second", torch::randn({6})}, {"data", torch::randn({6})}};
}

struct Run {
  std::vector<at::Tensor> parameters;
  std::vector<double> scales;
  std::vector<int64_t> trackers;
};

Run train(GradScaler& scaler, const Case& each, const Tensors& input) {
  Run run;
  for (const char* name : {"first", "second"}) {
    run.parameters.push_back(input.at(name).clone().requires_grad_());
  }
  AnyOptimizer optimizers[2];
  optimizers[0] = std::make_unique<AdamW>(
      std::vector{run.parameters[0]},
      AdamWOptions{.lr = 0.01, .weight_decay = 0.01, .implementation = each.implementation});
  optimizers[1] = std::make_unique<SGD>(
      std::vector{run.parameters[1]},
      SGDOptions{.lr = 0.01, .weight_decay = 0.01, .implementation = each.implementation});
  for (size_t step = 0; step < each.pattern.size(); ++step) {
    at::Tensor loss = torch::zeros({});
    for (const at::Tensor& parameter : run.parameters) {
      loss = loss + (parameter * parameter * input.at("data")).sum() * int64_t(step + 1);
    }
    scaler.scale(loss).backward();
    if (each.pattern[step] != "fine") {
      const torch::NoGradGuard no_grad;
      run.parameters[step % 2].grad()[1].fill_(each.pattern[step] == "inf"
                                                   ? std::numeric_limits<float>::infinity()
                                                   : std::numeric_limits<float>::quiet_NaN());
    }
    for (size_t i = 0; i < 2; ++i) {
      if (each.clips) {
        scaler.unscale_(*optimizers[i]);
        clip_grad_norm_({run.parameters[i]}, 0.5);
      }
      scaler.step(*optimizers[i]);
      zero_gradients(*optimizers[i]);
    }
    scaler.update();
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(scaler.step_was_skipped(*optimizers[i]),
                each.pattern[step] != "fine" && step % 2 == i);
    }
    run.scales.push_back(scaler.get_scale());
    run.trackers.push_back(scaler.get_growth_tracker());
  }
  return run;
}

void expect_equal(const Run& run, const Tensors& python, const std::string& name) {
  EXPECT_TRUE(same_bits(torch::tensor(run.scales, at::kDouble), python.at(name + "/scales")))
      << name << " " << run.scales << python.at(name + "/scales");
  EXPECT_TRUE(same_bits(torch::tensor(run.trackers, at::kLong), python.at(name + "/trackers")));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(run.parameters[i], python.at(name + "/parameter" + std::to_string(i))))
        << name;
  }
}

TEST(GradScaler, ScalesStepsAndWeightsAreThoseOfPython) {
  json cases = json::array();
  for (const Case& each : all_cases()) cases.push_back(describe(each));
  const Tensors input = make_input();
  const Tensors python = ask_python(TestSource("tests/trainer/precision/precision_twin.py"),
                                    "sequences", input, cases);
  ASSERT_FALSE(python.empty());
  for (const Case& each : all_cases()) {
    GradScaler scaler(each.scaler);
    expect_equal(train(scaler, each, input), python, each.name);
  }
}

TEST(GradScaler, PythonContinuesFromItsStateAndBack) {
  Case each = all_cases()[0];
  each.pattern.resize(11);
  GradScaler scaler(each.scaler);
  Tensors input = make_input();
  train(scaler, each, input);
  ASSERT_GT(scaler.get_growth_tracker(), 0);
  for (const auto& [name, value] : scaler.state_dict()) input["state/" + name] = value;
  // Python starts with different options: all of them come from the state.
  Case other = each;
  other.scaler = {};
  const Tensors python = ask_python(TestSource("tests/trainer/precision/precision_twin.py"),
                                    "loaded", input, json::array({describe(other)}));
  ASSERT_FALSE(python.empty());
  GradScaler again;
  again.load_state_dict(scaler.state_dict());
  expect_equal(train(again, other, input), python, each.name);
  TensorMap back;
  for (const auto& [name, value] : python) {
    if (name.starts_with("state/")) back[name.substr(6)] = value;
  }
  EXPECT_EQ(back.size(), 5u);
  scaler.load_state_dict(back);  // one that already has a device
  EXPECT_EQ(scaler.get_scale(), again.get_scale());
  EXPECT_EQ(scaler.get_growth_tracker(), again.get_growth_tracker());
  EXPECT_EQ(scaler.get_growth_interval(), 4);
}

class GradScalerStates : public testing::Test {
 protected:
  void backward(double factor = 1) { scaler_.scale((weight_ * factor).sum()).backward(); }
  at::Tensor weight_ = torch::ones({3}).requires_grad_();
  GradScaler scaler_{{.init_scale = 8}};
  torch::optim::SGD torchs_{{weight_}, 0.5};
  SGD fused_{{weight_}, {.lr = 0.5}};
};

TEST_F(GradScalerStates, TorchsOptimizersAreUnscaledAndSkipped) {
  backward();
  scaler_.step(torchs_);
  scaler_.update();
  EXPECT_EQ(weight_[0].item<float>(), 0.5f);
  EXPECT_FALSE(scaler_.step_was_skipped(torchs_));
  zero_gradients(torchs_);
  backward(std::numeric_limits<double>::infinity());
  scaler_.step(torchs_);
  EXPECT_TRUE(scaler_.step_was_skipped(torchs_));
  scaler_.update();
  EXPECT_TRUE(scaler_.step_was_skipped(torchs_));
  EXPECT_EQ(weight_[0].item<float>(), 0.5f);
  EXPECT_EQ(scaler_.get_scale(), 4);
}

TEST_F(GradScalerStates, AnOverflowThatAnotherRankFoundSkipsTheStep) {
  for (torch::optim::Optimizer* optimizer : {static_cast<torch::optim::Optimizer*>(&torchs_),
                                             static_cast<torch::optim::Optimizer*>(&fused_)}) {
    backward();
    scaler_.unscale_(*optimizer);
    ASSERT_EQ(scaler_.found_inf(*optimizer).size(), 1u);
    scaler_.found_inf(*optimizer)[0].fill_(1);
    scaler_.step(*optimizer);
    scaler_.update();
    EXPECT_TRUE(scaler_.step_was_skipped(*optimizer));
    EXPECT_EQ(weight_[0].item<float>(), 1);
    zero_gradients(*optimizer);
  }
}

TEST_F(GradScalerStates, CallsOutOfOrderAreRefused) {
  EXPECT_THROW(scaler_.unscale_(fused_), Error);  // before any scale()
  EXPECT_THROW(scaler_.step(fused_), Error);
  EXPECT_THROW(scaler_.update(), Error);
  scaler_.scale(torch::ones({}));
  EXPECT_THROW(scaler_.update(), Error);      // no gradients were checked
  EXPECT_THROW(scaler_.step(fused_), Error);  // no gradient
  backward();
  scaler_.unscale_(fused_);
  EXPECT_THROW(scaler_.unscale_(fused_), Error);
  scaler_.step(fused_);
  EXPECT_THROW(scaler_.step(fused_), Error);
  EXPECT_THROW(scaler_.unscale_(fused_), Error);
  scaler_.update();
  scaler_.unscale_(fused_);
}

TEST_F(GradScalerStates, HalfGradientsCannotBeUnscaled) {
  at::Tensor half = torch::ones({2}, at::kHalf).requires_grad_();
  torch::optim::SGD optimizer({half}, 0.5);
  scaler_.scale(half.to(at::kFloat).sum()).backward();
  EXPECT_THROW(scaler_.unscale_(optimizer), Error);
}

TEST_F(GradScalerStates, WithoutScalingNothingChanges) {
  GradScaler off({.enabled = false});
  const at::Tensor loss = weight_.sum();
  EXPECT_TRUE(off.scale(loss).is_same(loss));
  loss.backward();
  off.unscale_(fused_);
  off.step(fused_);
  off.update();
  EXPECT_EQ(weight_[0].item<float>(), 0.5f);
  EXPECT_EQ(off.get_scale(), 1.0);
  EXPECT_FALSE(off.step_was_skipped(fused_));
  EXPECT_TRUE(off.state_dict().empty());
  off.load_state_dict({});
}

TEST_F(GradScalerStates, ScaleIsSetByHandAndListsAreScaled) {
  const auto scaled = scaler_.scale({torch::ones({}), torch::full({2}, 3.0f)});
  EXPECT_EQ(scaled[1][0].item<float>(), 24);
  scaler_.update(32.0);
  EXPECT_EQ(scaler_.get_scale(), 32);
  EXPECT_THROW(scaler_.load_state_dict({}), CheckpointError);
  EXPECT_THROW(scaler_.load_state_dict({{"scale", torch::ones({})}}), CheckpointError);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), std::invalid_argument);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), std::invalid_argument);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace muster
