// Checkpointed segments: the same numbers as without, less memory, and clear errors.
#include "muster/memory/activation_checkpoint.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "live_bytes.h"
#include "muster/base/errors.h"
#include "muster/device/random_state.h"
#include "muster/precision/autocast.h"
#include "muster/precision/fp8.h"
#include "support/error_text.h"

namespace muster {
namespace {

namespace nn = torch::nn;

class BlockImpl : public nn::Module {
 public:
  explicit BlockImpl(int64_t width)
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})))),
        wide(register_module("wide", nn::Linear(width, 4 * width))),
        narrow(register_module("narrow", nn::Linear(4 * width, width))),
        dropout(register_module("dropout", nn::Dropout(0.3))) {}
  at::Tensor forward(const at::Tensor& x) {
    return x + dropout(narrow(torch::gelu(wide(norm(x)))));
  }
  nn::LayerNorm norm;
  nn::Linear wide, narrow;
  nn::Dropout dropout;
};
TORCH_MODULE(Block);

enum class Mode { plain, checkpointed, nested };

// Tokens to one number, through three blocks.
class NetImpl : public nn::Module {
 public:
  NetImpl()
      : embedding(register_module("embedding", nn::Embedding(11, 16))),
        blocks(register_module("blocks", nn::ModuleList(Block(16), Block(16), Block(16)))) {}

  at::Tensor forward(const at::Tensor& tokens, Mode mode) {
    const auto embed = [this](const at::Tensor& t) { return embedding(t); };
    at::Tensor x = mode == Mode::plain ? embed(tokens) : checkpoint(embed, tokens);
    const auto all = [this, mode](at::Tensor x) {
      for (const auto& each : *blocks) {
        Block block(std::dynamic_pointer_cast<BlockImpl>(each));
        x = mode == Mode::plain ? block(x) : checkpoint(block, x);
      }
      return x;
    };
    x = mode == Mode::nested ? checkpoint(all, x) : all(x);
    return x.to(at::kFloat).square().mean();
  }
  nn::Embedding embedding;
  nn::ModuleList blocks;
};
TORCH_MODULE(Net);

struct Trained {
  std::vector<at::Tensor> losses, gradients, parameters;
  at::Tensor random;
};

Trained train(Mode mode, Precision precision) {
  set_seed(7);
  Net net;
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const at::Tensor tokens = torch::randint(11, {5, 9});
  Trained trained;
  for (int step = 0; step < 4; ++step) {
    at::Tensor loss;
    {
      const Autocast region(at::kCPU, precision);
      loss = net(tokens, mode);
    }
    optimizer.zero_grad();
    loss.backward();
    trained.losses.push_back(loss.detach());
    for (const at::Tensor& parameter : net->parameters()) {
      trained.gradients.push_back(parameter.grad().clone());
    }
    optimizer.step();
  }
  trained.parameters = net->parameters();
  trained.random = random_state(at::kCPU);
  return trained;
}

void expect_same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(other[i])) << i;
}

void expect_same_training(Mode mode, Precision precision) {
  const Trained expected = train(Mode::plain, precision);
  const Trained got = train(mode, precision);
  expect_same(expected.losses, got.losses);
  expect_same(expected.gradients, got.gradients);
  expect_same(expected.parameters, got.parameters);
  EXPECT_TRUE(expected.random.equal(got.random));
}

TEST(ActivationCheckpoint, TrainingWithDropoutIsEqualBitByBit) {
  expect_same_training(Mode::checkpointed, Precision::fp32);
}

TEST(ActivationCheckpoint, TrainingInBfloat16IsEqualBitByBit) {
  expect_same_training(Mode::checkpointed, Precision::bf16);
}

TEST(ActivationCheckpoint, PartsOfPartsAreEqualBitByBit) {
  expect_same_training(Mode::nested, Precision::fp32);
  expect_same_training(Mode::nested, Precision::bf16);
}

TEST(ActivationCheckpoint, HoldsOnlyTheInputsOfItsParts) {
  const LiveBytes counting;
  set_seed(1);
  nn::ModuleList blocks;
  for (int i = 0; i < 6; ++i) blocks->push_back(Block(32));
  const at::Tensor input = torch::randn({64, 32});
  const auto held = [&](bool checkpointed, Precision precision) {
    const int64_t before = LiveBytes::now();
    const Autocast region(at::kCPU, precision);
    at::Tensor x = input;
    for (const auto& each : *blocks) {
      Block block(std::dynamic_pointer_cast<BlockImpl>(each));
      x = checkpointed ? checkpoint(block, x) : block(x);
    }
    const int64_t bytes = LiveBytes::now() - before;
    x.sum().backward();
    return bytes;
  };
  const int64_t activation = 64 * 32 * 4;
  // One output per block, and a generator's state.
  EXPECT_LT(held(true, Precision::fp32), 6 * (activation + 6000));
  EXPECT_GT(held(false, Precision::fp32), 6 * 8 * activation);
  // Nor its cast weights, twice 8 KiB each.
  EXPECT_LT(held(true, Precision::bf16), 6 * (activation + 6000));
}

TEST(ActivationCheckpoint, KeepsNothingWithoutGradients) {
  set_seed(2);
  Block block(8);
  const at::Tensor input = torch::randn({3, 8});
  const torch::NoGradGuard no_grad;
  const at::Tensor before = random_state(at::kCPU);
  const at::Tensor expected = block(input);
  set_random_state(at::kCPU, before);
  const at::Tensor got = checkpoint(block, input);
  EXPECT_TRUE(got.equal(expected));
  EXPECT_FALSE(got.requires_grad());
}

TEST(ActivationCheckpoint, TakesHoldersOfEveryKind) {
  set_seed(6);
  nn::Sequential sequential(nn::Linear(8, 8), nn::Tanh());
  nn::TransformerEncoderLayer layer(nn::TransformerEncoderLayerOptions(8, 2).dropout(0));
  Fp8Linear fp8(8, 8);
  const at::Tensor input = torch::randn({4, 2, 8});
  const auto gradient = [&](const at::Tensor& output) {
    sequential->zero_grad();
    output.square().sum().backward();
    return sequential->parameters()[0].grad().clone();
  };
  const at::Tensor wanted = gradient(fp8(layer(sequential->forward(input))));
  const at::Tensor got =
      gradient(checkpoint(fp8, checkpoint(layer, checkpoint(sequential, input))));
  EXPECT_TRUE(got.equal(wanted));
}

struct Pair {
  at::Tensor first, second;
  int64_t count = 0;
  auto fields() { return std::tie(first, second, count); }
};

TEST(ActivationCheckpoint, TakesAndGivesNestedValues) {
  const at::Tensor a = torch::randn({2, 2}).requires_grad_();
  const at::Tensor b = torch::randn({2, 2});
  const at::Tensor weight = torch::randn({2, 2}).requires_grad_();
  const auto part = [&](const Pair& pair, const std::map<std::string, at::Tensor>& map,
                        double factor) {
    const at::Tensor sum = pair.first * factor + map.at("b");
    EXPECT_FALSE(pair.second.defined());
    // An input, a parameter, a view, integers, an undefined tensor.
    return std::make_tuple(sum.mm(weight), pair.first, weight, pair.first.t(), sum.argmax(),
                           at::Tensor(), pair.count + 1);
  };
  const Pair pair{a, at::Tensor(), 4};
  const std::map<std::string, at::Tensor> map = {{"b", b}};
  const auto loss_of = [](const auto& outputs) {
    return (std::get<0>(outputs) * std::get<3>(outputs)).sum() + std::get<1>(outputs).sum() * 2 +
           (std::get<2>(outputs) * 3).sum();
  };
  loss_of(part(pair, map, 0.5)).backward();
  const at::Tensor a_gradient = a.grad().clone(), weight_gradient = weight.grad().clone();
  a.mutable_grad().reset();
  weight.mutable_grad().reset();

  const auto outputs = checkpoint(part, pair, map, 0.5);
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_FALSE(std::get<4>(outputs).requires_grad());
  EXPECT_FALSE(std::get<5>(outputs).defined());
  EXPECT_EQ(std::get<6>(outputs), 5);
  loss_of(outputs).backward();
  EXPECT_TRUE(a.grad().allclose(a_gradient));
  EXPECT_TRUE(weight.grad().allclose(weight_gradient));
  EXPECT_FALSE(b.grad().defined());
}

TEST(ActivationCheckpoint, AWeightUsedAgainInTheSameAutocastRegionKeepsItsGradient) {
  const at::Tensor weight = torch::ones({2, 2}).requires_grad_();
  const at::Tensor input = torch::ones({2, 2});
  const auto part = [&](const at::Tensor& x) { return x.mm(weight); };
  at::Tensor loss;
  {
    const Autocast region(at::kCPU, Precision::bf16);
    const at::Tensor hidden = checkpoint(part, input);
    loss = input.mm(weight).sum() + hidden.sum();
  }
  loss.backward();
  EXPECT_TRUE(weight.grad().equal(torch::full({2, 2}, 4.0)));
}

TEST(ActivationCheckpoint, HooksOnGradientsRunOnceEachInsideTheInnerBackward) {
  Block block(8);
  std::map<std::string, int> calls;
  for (const auto& item : block->named_parameters()) {
    item.value().register_hook([&calls, name = item.key()](const at::Tensor&) { ++calls[name]; });
  }
  const at::Tensor x = checkpoint(block, checkpoint(block, torch::ones({2, 8})));
  EXPECT_TRUE(calls.empty());
  x.sum().backward();
  // Two uses, each with its own backward pass.
  for (const auto& item : block->named_parameters()) EXPECT_EQ(calls[item.key()], 2) << item.key();
}

TEST(ActivationCheckpoint, RandomNumbersAreKeptOnlyWhereThatIsAskedFor) {
  const auto gradient = [](bool preserve) {
    set_seed(3);
    const at::Tensor x = torch::ones({1000}).requires_grad_();
    const auto part = [](const at::Tensor& x) { return torch::dropout(x, 0.5, true); };
    const at::Tensor y =
        checkpoint(ActivationCheckpointOptions{.preserve_rng_state = preserve}, part, x);
    const at::Tensor before = random_state(at::kCPU);
    y.sum().backward();
    EXPECT_EQ(random_state(at::kCPU).equal(before), preserve);
    return std::pair(y.detach(), x.grad());
  };
  const auto [masked, same] = gradient(true);
  EXPECT_TRUE(same.equal(masked));
  const auto [masked_again, different] = gradient(false);
  EXPECT_FALSE(different.equal(masked_again));
}

TEST(ActivationCheckpoint, AGraphThatIsRetainedCanBeUsedTwice) {
  const at::Tensor weight = torch::randn({3, 3}).requires_grad_();
  const at::Tensor loss =
      checkpoint([&](const at::Tensor& x) { return x.mm(weight); }, torch::ones({3, 3})).sum();
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor once = weight.grad().clone();
  loss.backward();
  EXPECT_TRUE(weight.grad().equal(once * 2));
  EXPECT_NE(error_of([&] { loss.backward(); }).find("second time"), std::string::npos);
}

TEST(ActivationCheckpoint, AnInputChangedBeforeBackwardIsAnError) {
  const at::Tensor weight = torch::randn({3, 3}).requires_grad_();
  at::Tensor input = torch::ones({3, 3});
  const at::Tensor loss =
      checkpoint([&](const at::Tensor& x) { return x.mm(weight); }, input).sum();
  input.add_(1);
  EXPECT_NE(error_of([&] { loss.backward(); }).find("modified by an inplace"), std::string::npos);
}

TEST(ActivationCheckpoint, GradientsThatWouldBeWrongAreRefused) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const auto part = [](const at::Tensor& x) { return x * x; };
  EXPECT_NE(error_of([&] {
              torch::autograd::grad({checkpoint(part, x).sum()}, {x});
            }).find("torch::autograd::grad"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              checkpoint(part, x).sum().backward({}, std::nullopt, /*create_graph=*/true);
            }).find("create_graph"),
            std::string::npos);
}

TEST(ActivationCheckpoint, ASecondRunThatDiffersOrThrowsIsAnErrorAndLeavesNothingBehind) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  int runs = 0;
  const auto growing = [&runs](const at::Tensor& x) {
    return std::vector<at::Tensor>(static_cast<size_t>(++runs), x * 2);
  };
  const std::vector<at::Tensor> once = checkpoint(growing, x);
  EXPECT_NE(
      error_of([&] { once[0].sum().backward(); }).find("2 tensors when it was recomputed and 1"),
      std::string::npos);

  int calls = 0;
  const auto failing = [&calls](const at::Tensor& x) {
    const at::Tensor masked = torch::dropout(x, 0.5, true);
    if (++calls == 2) throw std::runtime_error("the second run fails");
    return masked;
  };
  at::Tensor loss;
  {
    const Autocast region(at::kCPU, Precision::bf16);
    loss = checkpoint(failing, x).sum();
  }
  const at::Tensor before = random_state(at::kCPU);
  EXPECT_NE(error_of([&] { loss.backward(); }).find("the second run fails"), std::string::npos);
  EXPECT_TRUE(random_state(at::kCPU).equal(before));
  EXPECT_EQ(torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace muster
