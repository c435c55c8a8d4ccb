// What the optimizers guarantee beyond Python's numbers: memory, moves, state, scaled steps,
// unusual gradients, errors.
#include "muster/optim/optimizers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "muster/base/errors.h"
#include "optim/twin.h"

namespace muster {
namespace {

constexpr Implementation kImplementations[] = {Implementation::fused, Implementation::foreach,
                                               Implementation::plain};

at::Tensor parameter(at::IntArrayRef sizes) { return torch::randn(sizes).requires_grad_(); }

at::Tensor copy_of(const at::Tensor& tensor) {
  return torch::empty_like(tensor).copy_(tensor).detach().requires_grad_();
}

// Gradients that depend on the parameter and the step.
void set_gradients(const std::vector<at::Tensor>& parameters, int step) {
  for (const at::Tensor& each : parameters) {
    const torch::NoGradGuard no_grad;
    each.mutable_grad() = torch::empty_like(each).copy_(torch::sin(each.detach() * 3 + step));
  }
}

TEST(Optimizer, ZeroGradReleasesGradientsInsideABucket) {
  at::Tensor bucket = torch::ones({6});
  at::Tensor weight = parameter({2, 3});
  weight.mutable_grad() = bucket.view({2, 3});
  SGD optimizer({weight}, {.lr = 0.1});

  optimizer.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(bucket.sum().item<float>(), 0);
  EXPECT_TRUE(weight.grad().is_alias_of(bucket));
  optimizer.zero_grad();
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Optimizer, ZeroGradWorksOnTorchsOptimizersAndOnGradientsOfGradients) {
  at::Tensor weight = parameter({3});
  torch::optim::SGD optimizer({weight}, 0.1);
  (weight * weight * weight).sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  ASSERT_TRUE(weight.grad().grad_fn());
  zero_gradients(optimizer, /*set_to_none=*/false);
  EXPECT_FALSE(weight.grad().grad_fn());
  EXPECT_EQ(weight.grad().abs().sum().item<float>(), 0);
  zero_gradients(optimizer);
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Optimizer, StepKeepsNoGradientAlive) {
  for (const Implementation implementation : kImplementations) {
    at::Tensor weight = parameter({4});
    AdamW optimizer({weight}, {.implementation = implementation});
    at::Tensor gradient = torch::ones({4});
    weight.mutable_grad() = gradient;
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_EQ(gradient.use_count(), 1u);
  }
}

TEST(Optimizer, MovingKeepsParametersStateAndOptions) {
  at::Tensor weight = parameter({5}), twin = copy_of(weight);
  AdamW first({weight}, {.lr = 0.1});
  AdamW unmoved({twin}, {.lr = 0.1});
  set_gradients({weight, twin}, 0);
  first.step();
  unmoved.step();
  auto moved = std::make_shared<AdamW>(std::move(first));
  moved->options().lr = 0.05;
  unmoved.options().lr = 0.05;
  set_gradients({weight, twin}, 1);
  moved->step();
  unmoved.step();
  EXPECT_TRUE(same_bits(weight, twin));
  EXPECT_EQ(moved->param_groups()[0].options().get_lr(), 0.05);
}

TEST(Optimizer, ClosureRunsWithGradientsAndItsLossComesBack) {
  at::Tensor weight = torch::tensor({2.0f}).requires_grad_();
  SGD optimizer({weight}, {.lr = 0.5});
  const torch::NoGradGuard no_grad;
  const at::Tensor loss = optimizer.step([&] {
    at::Tensor value = (weight * weight).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<float>(), 4);
  EXPECT_EQ(weight.item<float>(), 0);  // 2 - 0.5 * 4
}

TEST(Optimizer, TiedWeightsAreSteppedOnce) {
  at::Tensor weight = torch::ones({2}).requires_grad_();
  SGD optimizer({weight, weight}, {.lr = 0.5});
  weight.mutable_grad() = torch::ones({2});
  optimizer.step();
  EXPECT_EQ(weight[0].item<float>(), 0.5f);
}

TEST(Optimizer, ParametersWithHolesAndForeignGradientStridesAreStillRight) {
  const at::Tensor base = torch::randn({4, 6});
  at::Tensor holes = base.slice(1, 0, 6, 2).detach().requires_grad_();
  at::Tensor turned = torch::randn({3, 5}).t().detach().requires_grad_();
  at::Tensor plain_holes = holes.detach().clone().requires_grad_();
  at::Tensor plain_turned = turned.detach().contiguous().requires_grad_();
  const at::Tensor untouched = base.slice(1, 1, 6, 2).clone();
  AdamW odd({holes, turned}, {.lr = 0.1});
  AdamW even({plain_holes, plain_turned}, {.lr = 0.1, .implementation = Implementation::plain});
  for (int step = 0; step < 3; ++step) {
    const at::Tensor first = torch::randn({4, 3}), second = torch::randn({5, 3});
    holes.mutable_grad() = first.clone();
    plain_holes.mutable_grad() = first.clone();
    turned.mutable_grad() = second.clone();  // contiguous, unlike the parameter
    plain_turned.mutable_grad() = second.clone();
    odd.step();
    even.step();
  }
  EXPECT_TRUE(torch::equal(holes, plain_holes));
  EXPECT_TRUE(torch::equal(turned, plain_turned));
  EXPECT_TRUE(torch::equal(base.slice(1, 1, 6, 2), untouched));
}

TEST(Optimizer, SparseGradientsOfEmbeddingsGiveWhatDenseOnesGive) {
  const auto check = [](auto make) {
    torch::nn::Embedding sparse(torch::nn::EmbeddingOptions(6, 3).sparse(true));
    torch::nn::Embedding dense(torch::nn::EmbeddingOptions(6, 3));
    {
      const torch::NoGradGuard no_grad;
      dense->weight.copy_(sparse->weight);
    }
    auto one = make(sparse->parameters());
    auto two = make(dense->parameters());
    const at::Tensor words = torch::tensor({1, 4, 4, 2}, at::kLong);
    for (int step = 0; step < 4; ++step) {
      for (auto* each : {&sparse, &dense}) (*each)->forward(words).pow(2).sum().backward();
      one.step();
      two.step();
      one.zero_grad();
      two.zero_grad();
    }
    EXPECT_TRUE(torch::allclose(sparse->weight, dense->weight, 1e-6, 1e-7));
  };
  check([](auto parameters) { return SGD(parameters, {.lr = 0.1}); });
  check([](auto parameters) { return SGD(parameters, {.lr = 0.1, .momentum = 0.9}); });
  check([](auto parameters) { return Adagrad(parameters, {.lr = 0.1}); });
  torch::nn::Embedding sparse(torch::nn::EmbeddingOptions(6, 3).sparse(true));
  AdamW adam(sparse->parameters());
  sparse->forward(torch::tensor({1}, at::kLong)).sum().backward();
  EXPECT_THROW(adam.step(), Error);
}

TEST(Optimizer, StateContinuesInAnotherOptimizerAndImplementation) {
  for (const Implementation next : kImplementations) {
    at::Tensor weight = parameter({5, 2}), bias = parameter({2});
    AdamW first({weight, bias}, {.lr = 0.01, .amsgrad = true, .implementation = next});
    for (int step = 0; step < 6; ++step) {
      set_gradients(step % 2 == 0 ? std::vector{weight, bias} : std::vector{weight}, step);
      if (step % 2 == 1) bias.mutable_grad().reset();
      first.step();
    }
    at::Tensor weight_copy = copy_of(weight), bias_copy = copy_of(bias);
    AdamW second({weight_copy, bias_copy}, {.lr = 0.01, .amsgrad = true, .implementation = next});
    second.set_parameter_state(weight_copy, first.parameter_state(weight));
    second.set_parameter_state(bias_copy, first.parameter_state(bias));
    EXPECT_EQ(second.parameter_state(weight_copy).at("step").item<int64_t>(), 6);
    EXPECT_EQ(second.parameter_state(bias_copy).at("step").item<int64_t>(), 3);
    for (int step = 6; step < 9; ++step) {
      set_gradients({weight, bias, weight_copy, bias_copy}, step);
      first.step();
      second.step();
    }
    EXPECT_TRUE(same_bits(weight, weight_copy));
    EXPECT_TRUE(same_bits(bias, bias_copy));
    EXPECT_EQ(first.parameter_state(bias).at("step").item<int64_t>(), 6);
  }
}

TEST(Optimizer, StateOfTorchsOptimizerContinues) {
  at::Tensor weight = parameter({6}), copy = copy_of(weight);
  torch::optim::AdamW torchs({weight}, torch::optim::AdamWOptions(0.01));
  for (int step = 0; step < 5; ++step) {
    set_gradients({weight}, step);
    torchs.step();
  }
  auto& state =
      static_cast<torch::optim::AdamWParamState&>(*torchs.state().at(weight.unsafeGetTensorImpl()));
  copy.set_data(weight.detach().clone());
  AdamW ours({copy}, {.lr = 0.01, .implementation = Implementation::plain});
  ours.set_parameter_state(copy, {{"step", torch::tensor(state.step(), at::kLong)},
                                  {"exp_avg", state.exp_avg()},
                                  {"exp_avg_sq", state.exp_avg_sq()}});
  for (int step = 5; step < 10; ++step) {
    set_gradients({weight, copy}, step);
    torchs.step();
    ours.step();
  }
  EXPECT_TRUE(torch::allclose(weight, copy, 1e-6, 1e-8));
}

TEST(Optimizer, StateThatDoesNotFitIsRefusedAndChangesNothing) {
  at::Tensor weight = parameter({3});
  Adam optimizer({weight});
  set_gradients({weight}, 0);
  optimizer.step();
  const at::Tensor before = optimizer.parameter_state(weight).at("exp_avg").clone();
  const at::Tensor one = torch::tensor(int64_t{4}), good = torch::ones({3});
  const TensorMap wrong[] = {
      {{"step", one}, {"exp_avg", torch::ones({2})}, {"exp_avg_sq", good}},
      {{"step", one}, {"exp_avg", good}},
      {{"exp_avg", good}, {"exp_avg_sq", good}},
      {{"step", one}, {"exp_avg", good}, {"exp_avg_sq", good}, {"momentum_buffer", good}}};
  for (const TensorMap& state : wrong) {
    EXPECT_THROW(optimizer.set_parameter_state(weight, state), CheckpointError);
  }
  EXPECT_TRUE(same_bits(optimizer.parameter_state(weight).at("exp_avg"), before));
  EXPECT_THROW(optimizer.parameter_state(torch::ones({3})), std::invalid_argument);
  optimizer.set_parameter_state(weight, {});
  EXPECT_TRUE(optimizer.parameter_state(weight).empty());
}

TEST(Optimizer, ScaledStepUnscalesOrLeavesEverythingAsItWas) {
  for (const Implementation implementation : kImplementations) {
    at::Tensor weight = parameter({4, 3}), twin = copy_of(weight);
    AdamW scaled({weight}, {.lr = 0.1, .implementation = implementation});
    AdamW unscaled({twin}, {.lr = 0.1, .implementation = implementation});
    for (int step = 0; step < 6; ++step) {
      set_gradients({weight, twin}, step);
      weight.mutable_grad().mul_(1024);
      const bool overflow = step % 3 == 1;
      scaled.step_scaled(torch::tensor(1024.0f), torch::tensor(overflow ? 1.0f : 0.0f));
      if (overflow) {
        set_gradients({twin}, step + 100);
      } else {
        EXPECT_TRUE(same_bits(weight.grad(), twin.grad()));
        unscaled.step();
      }
      EXPECT_TRUE(same_bits(weight, twin)) << step;
    }
    EXPECT_EQ(scaled.scales_in_kernel(), implementation == Implementation::fused);
    EXPECT_EQ(scaled.parameter_state(weight).at("step").item<int64_t>(), 4);
  }
}

TEST(Optimizer, SkippedFirstStepLeavesNoTraceInTheMomentum) {
  at::Tensor weight = parameter({4}), twin = copy_of(weight);
  const SGDOptions options = {.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
  SGD scaled({weight}, options), plain({twin}, options);
  set_gradients({weight}, 50);
  scaled.step_scaled(torch::tensor(2.0f), torch::tensor(1.0f));
  EXPECT_TRUE(scaled.parameter_state(weight).empty());
  for (int step = 0; step < 3; ++step) {
    set_gradients({weight, twin}, step);
    weight.mutable_grad().mul_(2);
    scaled.step_scaled(torch::tensor(2.0f), torch::tensor(0.0f));
    plain.step();
  }
  EXPECT_TRUE(same_bits(weight, twin));
}

TEST(Optimizer, FollowsAModelThatChangesItsDtype) {
  torch::nn::Linear layer(3, 2);
  AdamW optimizer(layer->parameters());
  layer->forward(torch::ones({1, 3})).sum().backward();
  optimizer.step();
  optimizer.zero_grad();
  layer->to(at::kDouble);
  layer->forward(torch::ones({1, 3}, at::kDouble)).sum().backward();
  optimizer.step();
  const TensorMap state = optimizer.parameter_state(layer->weight);
  EXPECT_EQ(state.at("exp_avg").scalar_type(), at::kDouble);
  EXPECT_EQ(state.at("step").item<int64_t>(), 2);
}

TEST(Optimizer, ComplexParametersStepLikePairsOfRealOnes) {
  at::Tensor complex = torch::randn({5}, at::kComplexFloat).requires_grad_();
  at::Tensor pairs = torch::view_as_real(complex.detach().clone()).requires_grad_();
  AdamW one({complex}), two({pairs}, {.implementation = Implementation::foreach});
  for (int step = 0; step < 3; ++step) {
    complex.mutable_grad() = torch::randn({5}, at::kComplexFloat);
    pairs.mutable_grad() = torch::view_as_real(complex.grad()).clone();
    one.step();
    two.step();
  }
  EXPECT_TRUE(torch::equal(torch::view_as_real(complex), pairs));
}

TEST(Optimizer, GroupsAddedLaterTakeTheDefaults) {
  at::Tensor first = torch::ones({1}).requires_grad_(), second = torch::ones({1}).requires_grad_();
  SGD optimizer({first}, {.lr = 0.25});
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({second}));
  first.mutable_grad() = torch::ones({1});
  second.mutable_grad() = torch::ones({1});
  optimizer.step();
  EXPECT_EQ(first.item<float>(), 0.75f);
  EXPECT_EQ(second.item<float>(), 0.75f);
}

TEST(Optimizer, BadOptionsAndParametersAreRefused) {
  const at::Tensor weight = parameter({1});
  EXPECT_THROW(AdamW({weight}, {.lr = -1}), std::invalid_argument);
  EXPECT_THROW(Adam({weight}, {.betas = {0.9, 1.0}}), std::invalid_argument);
  EXPECT_THROW(SGD({weight}, {.momentum = 0, .nesterov = true}), std::invalid_argument);
  EXPECT_THROW(Adagrad({weight}, {.lr_decay = -0.1}), std::invalid_argument);
  EXPECT_THROW(AdamW({weight * 2}), std::invalid_argument);
  EXPECT_THROW(AdamW(std::vector<ParameterGroup<AdamWOptions>>{}), std::invalid_argument);
  const std::vector<ParameterGroup<SGDOptions>> twice = {{{weight}, {}}, {{weight}, {}}};
  EXPECT_THROW(SGD{twice}, std::invalid_argument);
  at::Tensor complex = torch::ones({1}, at::kComplexFloat).requires_grad_();
  Adam fused({complex}, {.implementation = Implementation::fused});
  complex.mutable_grad() = torch::ones({1}, at::kComplexFloat);
  EXPECT_THROW(fused.step(), std::invalid_argument);
}

}  // namespace
}  // namespace muster
