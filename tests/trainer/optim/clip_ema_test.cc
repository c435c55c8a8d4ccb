// Clipping and the moving average against Python, bit by bit, and edge cases.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/errors.h"
#include "muster/optim/clip_grad.h"
#include "muster/optim/ema.h"
#include "optim/twin.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensors make_gradients() {
  torch::manual_seed(5);
  Tensors gradients;
  for (int i = 0; i < 23; ++i) gradients["float" + std::to_string(i)] = torch::randn({i + 1, 7});
  gradients["turned"] = torch::randn({9, 4}).t();
  gradients["scalar"] = torch::randn({});
  gradients["empty"] = torch::randn({0, 2});
  for (int i = 0; i < 3; ++i) {
    gradients["half" + std::to_string(i)] = torch::randn({11}).to(at::kBFloat16);
    gradients["precise" + std::to_string(i)] = torch::randn({5}, at::kDouble);
  }
  gradients["broken"] = torch::tensor({1.0f, float(kInfinity)});
  return gradients;
}

struct Clip {
  std::string name;
  std::vector<std::string> gradients;
  double max_norm, norm_type;
};

std::vector<Clip> clips() {
  std::vector<std::string> floats, all, filled;
  for (const auto& [name, gradient] : make_gradients()) {
    if (name == "broken") continue;
    all.push_back(name);
    if (gradient.scalar_type() == at::kFloat) floats.push_back(name);
    if (gradient.numel() > 0) filled.push_back(name);
  }
  std::vector<std::string> broken = {"float3", "broken", "scalar"};
  std::vector<Clip> clips;
  for (const double norm : {2.0, 1.0, 3.5, 0.5}) {
    clips.push_back({"floats " + std::to_string(norm), floats, 1.0, norm});
    clips.push_back({"mixed " + std::to_string(norm), all, 0.7, norm});
  }
  clips.push_back({"largest", filled, 0.5, kInfinity});
  clips.push_back({"smallest", {"float2", "scalar"}, 0.5, -kInfinity});
  clips.push_back({"loose", floats, 1e6, 2.0});
  clips.push_back({"halves", {"half0", "half1", "half2"}, 0.3, 2.0});
  clips.push_back({"infinite", broken, 1.0, 2.0});
  return clips;
}

// Parameters with copies of these gradients.
std::vector<at::Tensor> parameters_of(const std::vector<std::string>& names) {
  static const Tensors all = make_gradients();
  std::vector<at::Tensor> parameters;
  for (const std::string& name : names) {
    parameters.push_back(torch::zeros_like(all.at(name)).requires_grad_());
    parameters.back().mutable_grad() = all.at(name).clone();
  }
  return parameters;
}

TEST(Clipping, NormsAndGradientsAreBitEqualToPythons) {
  json cases = json::array();
  for (const Clip& clip : clips()) {
    const std::string norm = std::isinf(clip.norm_type) ? (clip.norm_type > 0 ? "inf" : "-inf")
                                                        : std::to_string(clip.norm_type);
    cases.push_back({{"name", clip.name},
                     {"gradients", clip.gradients},
                     {"max_norm", clip.max_norm},
                     {"norm_type", norm}});
  }
  const std::vector<std::string> some = {"float4", "half1", "empty", "turned"};
  cases.push_back({{"name", "value"}, {"gradients", some}, {"value", 0.3}});
  const Tensors python = ask_python(TestSource("tests/trainer/optim/optim_twin.py"), "clipping",
                                    make_gradients(), cases);
  ASSERT_FALSE(python.empty());
  for (const Clip& clip : clips()) {
    const auto parameters = parameters_of(clip.gradients);
    const at::Tensor total = clip_grad_norm_(parameters, clip.max_norm, clip.norm_type);
    const at::Tensor& expected = python.at(clip.name + "/total");
    EXPECT_TRUE(same_bits(total, expected)) << clip.name << " " << total << " " << expected;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& gradient = python.at(clip.name + "/" + clip.gradients[i]);
      EXPECT_TRUE(torch::allclose(parameters[i].grad(), gradient, 0, 0, /*equal_nan=*/true))
          << clip.name << " " << clip.gradients[i];
    }
  }
  const auto parameters = parameters_of(some);
  clip_grad_value_(parameters, 0.3);
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_TRUE(same_bits(parameters[i].grad(), python.at("value/" + some[i])));
  }
}

// Module::parameters() lists a tied weight under each of its names; Python's, once.
TEST(Clipping, CountsAndScalesATiedWeightOnce) {
  const at::Tensor tied = torch::zeros({2}).requires_grad_();
  const at::Tensor other = torch::zeros({1}).requires_grad_();
  const auto set = [&] {
    tied.mutable_grad() = torch::tensor({2.0f, 1.0f});
    other.mutable_grad() = torch::tensor({2.0f});
  };
  set();
  EXPECT_EQ(clip_grad_norm_({tied, other, tied}, 1.5).item<float>(), 3.0f);
  EXPECT_TRUE(torch::allclose(tied.grad(), torch::tensor({1.0f, 0.5f})));
  EXPECT_TRUE(torch::allclose(other.grad(), torch::tensor({1.0f})));
  set();
  clip_grads_with_norm_({tied, other, tied}, 1.5, torch::tensor(3.0f));
  EXPECT_TRUE(torch::allclose(tied.grad(), torch::tensor({1.0f, 0.5f})));
}

TEST(Clipping, NothingToClipHasNormZero) {
  EXPECT_EQ(clip_grad_norm_({}, 1.0).item<float>(), 0);
  const at::Tensor without = torch::ones({2}).requires_grad_();
  EXPECT_EQ(clip_grad_norm_({without}, 1.0).item<float>(), 0);
  const auto empty = parameters_of({"empty"});
  EXPECT_EQ(clip_grad_norm_(empty, 1.0, kInfinity).item<float>(), 0);
  clip_grad_value_({without}, 1.0);
}

TEST(Clipping, NonFiniteNormsThrowWhenAskedAndLeaveTheGradients) {
  const auto parameters = parameters_of({"float1", "broken"});
  const at::Tensor before = parameters[0].grad().clone();
  EXPECT_THROW(clip_grad_norm_(parameters, 1.0, 2.0, /*error_if_nonfinite=*/true), Error);
  EXPECT_TRUE(same_bits(parameters[0].grad(), before));
}

TEST(Clipping, GradientsInsideABucketStayThere) {
  at::Tensor bucket = torch::full({4}, 10.0f);
  at::Tensor weight = torch::zeros({2, 2}).requires_grad_();
  weight.mutable_grad() = bucket.view({2, 2});
  clip_grad_norm_({weight}, 1.0);
  EXPECT_NEAR(bucket.norm().item<float>(), 1.0, 1e-5);
}

// ---- Moving average ----

struct Model : torch::nn::Module {
  Model() {
    w = register_parameter("w", torch::randn({3, 2}));
    b = register_parameter("b", torch::randn({2}));
    mean = register_buffer("mean", torch::ones({2}));
    count = register_buffer("count", torch::zeros({}, at::kLong));
  }
  at::Tensor w, b, mean, count;
};

void set_weights(Model& model, const Tensors& weights, int update) {
  const torch::NoGradGuard no_grad;
  model.w.copy_(weights.at(std::to_string(update) + "/w"));
  model.b.copy_(weights.at(std::to_string(update) + "/b"));
}

TEST(MovingAverage, IsBitEqualToPythonsAveragedModel) {
  Tensors weights;
  for (int update = 0; update <= 20; ++update) {
    weights[std::to_string(update) + "/w"] = torch::randn({3, 2});
    weights[std::to_string(update) + "/b"] = torch::randn({2});
  }
  const json cases = {{{"name", "slow"}, {"decay", 0.999}, {"updates", 20}},
                      {{"name", "quick"}, {"decay", 0.5}, {"updates", 20}}};
  const Tensors python =
      ask_python(TestSource("tests/trainer/optim/optim_twin.py"), "averages", weights, cases);
  ASSERT_FALSE(python.empty());
  for (const json& each : cases) {
    Model model;
    set_weights(model, weights, 0);
    ExponentialMovingAverage average(model, {.decay = each["decay"], .update_after = 1});
    for (int update = 1; update <= 20; ++update) {
      set_weights(model, weights, update);
      average.update();
    }
    const TensorMap state = average.state();
    for (const std::string name : {"w", "b"}) {
      EXPECT_TRUE(same_bits(state.at("average/" + name),
                            python.at(each["name"].get<std::string>() + "/" + name)));
    }
  }
}

TEST(MovingAverage, ScopeSwapsTheAverageInAndTheWeightsBackAlsoAfterAnException) {
  Model model;
  const at::Tensor first = model.w.detach().clone();
  ExponentialMovingAverage average(model, {.decay = 0.75});
  {
    const torch::NoGradGuard no_grad;
    model.w.add_(4);
  }
  const at::Tensor trained = model.w.detach().clone();
  average.update();
  try {
    const auto scope = average.average_parameters();
    EXPECT_TRUE(torch::allclose(model.w, first + 1));
    EXPECT_THROW(average.update(), Error);
    EXPECT_THROW(average.state(), Error);
    EXPECT_THROW(average.average_parameters(), Error);
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(same_bits(model.w, trained));
  EXPECT_TRUE(torch::allclose(average.state().at("average/w"), first + 1));
}

TEST(MovingAverage, WarmupStartsWithASmallDecay) {
  Model model;
  ExponentialMovingAverage average(model, {.decay = 0.9, .update_after = 2, .warmup = true});
  std::vector<double> decays;
  for (int i = 0; i < 200; ++i) {
    decays.push_back(average.next_decay());
    average.update();
  }
  EXPECT_EQ(decays[0], 0);
  EXPECT_EQ(decays[1], 0);
  EXPECT_EQ(decays[2], 2.0 / 11);
  EXPECT_EQ(decays[3], 3.0 / 12);
  EXPECT_EQ(decays[199], 0.9);
}

TEST(MovingAverage, StateRoundTripsAndWhatDoesNotFitIsNamed) {
  Model model, other;
  ExponentialMovingAverage average(model, {.decay = 0.5}), loaded(other, {.decay = 0.5});
  average.update();
  loaded.load_state(average.state());
  EXPECT_EQ(loaded.num_updates(), 1);
  EXPECT_TRUE(same_bits(loaded.state().at("average/b"), average.state().at("average/b")));
  TensorMap state = average.state();
  state.erase("average/b");
  try {
    loaded.load_state(state);
    FAIL() << "a missing tensor was accepted";
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("average/b"), std::string::npos);
  }
}

TEST(MovingAverage, BuffersTakePartWhenAskedAndCopiesGoAnywhere) {
  Model model;
  ExponentialMovingAverage average(model, {.decay = 0.5, .use_buffers = true});
  model.mean.add_(2);
  average.update();
  EXPECT_EQ(average.state().at("average/mean")[0].item<float>(), 2);
  EXPECT_FALSE(average.state().contains("average/count"));
  Model other;
  average.copy_to(other);
  EXPECT_EQ(other.mean[0].item<float>(), 2);
  EXPECT_TRUE(same_bits(other.w, model.w));

  ExponentialMovingAverage listed(model.parameters(), {});
  EXPECT_TRUE(listed.state().contains("average/1"));
  EXPECT_THROW(listed.copy_to(std::vector<at::Tensor>{torch::ones({1})}), std::invalid_argument);
  EXPECT_THROW(ExponentialMovingAverage(model, {.decay = 1.5}), std::invalid_argument);
  EXPECT_THROW(ExponentialMovingAverage(std::vector<at::Tensor>{}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace muster
