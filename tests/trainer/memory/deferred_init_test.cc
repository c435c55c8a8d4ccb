// Modules built without values: the same values later, in little memory, and clear errors.
#include "muster/memory/deferred_init.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "live_bytes.h"
#include "muster/device/random_state.h"
#include "muster/precision/fp8.h"
#include "support/error_text.h"

namespace muster {
namespace {

namespace nn = torch::nn;

// A module whose constructor is a function.
class BuiltImpl : public nn::Module {
 public:
  explicit BuiltImpl(const std::function<void(BuiltImpl&)>& build) { build(*this); }
  using nn::Module::register_buffer;
  using nn::Module::register_module;
  using nn::Module::register_parameter;
};
TORCH_MODULE(Built);
using Build = std::function<void(BuiltImpl&)>;

std::map<std::string, at::Tensor> state_of(const nn::Module& module) {
  std::map<std::string, at::Tensor> state;
  for (const auto& item : module.named_parameters()) state[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) state[item.key()] = item.value();
  return state;
}

void expect_same_state(const nn::Module& expected, const nn::Module& got) {
  const auto wanted = state_of(expected), has = state_of(got);
  ASSERT_EQ(wanted.size(), has.size());
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(has.contains(name)) << name;
    const at::Tensor& other = has.at(name);
    EXPECT_TRUE(other.is_cpu()) << name;
    EXPECT_EQ(tensor.scalar_type(), other.scalar_type()) << name;
    EXPECT_EQ(tensor.strides(), other.strides()) << name;
    EXPECT_EQ(tensor.requires_grad(), other.requires_grad()) << name;
    EXPECT_EQ(tensor.is_leaf(), other.is_leaf()) << name;
    EXPECT_TRUE(tensor.equal(other)) << name;
  }
}

// Builds it both ways from one seed, and fails on any difference.
template <typename F>
void expect_as_direct(F&& build) {
  set_seed(11);
  const auto direct = build();
  const at::Tensor random_after = random_state(at::kCPU);

  set_seed(11);
  const at::Tensor random_before = random_state(at::kCPU);
  auto deferred = deferred_init(build);
  EXPECT_TRUE(random_state(at::kCPU).equal(random_before));
  for (const DeferredTensor& each : deferred.tensors()) {
    EXPECT_TRUE(each.tensor.is_cpu() || each.tensor.storage().data() == nullptr) << each.name;
  }
  torch::rand({100});  // numbers drawn in between do not matter
  materialize_in_place(deferred);
  EXPECT_TRUE(random_state(at::kCPU).equal(random_after));
  expect_same_state(*direct, *deferred);
}

void expect_built_as_direct(const Build& build) {
  expect_as_direct([&] { return Built(build); });
}

TEST(DeferredInit, LayersOfEveryKindGetTheValuesOfADirectBuild) {
  expect_built_as_direct([](BuiltImpl& net) {
    net.register_module("linear", nn::Linear(5, 7));
    net.register_module("plain", nn::Linear(nn::LinearOptions(5, 7).bias(false)));
    net.register_module("embedding", nn::Embedding(nn::EmbeddingOptions(11, 6).padding_idx(3)));
    net.register_module("layer_norm", nn::LayerNorm(nn::LayerNormOptions({6})));
    net.register_module("batch_norm", nn::BatchNorm2d(4));
    net.register_module("conv", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).groups(2)));
    net.register_module("transposed", nn::ConvTranspose1d(4, 6, 3));
    net.register_module("lstm", nn::LSTM(nn::LSTMOptions(5, 6).num_layers(2).bidirectional(true)));
    net.register_module("gru", nn::GRUCell(5, 6));
    net.register_module("attention", nn::MultiheadAttention(8, 2));
    net.register_module("bilinear", nn::Bilinear(2, 3, 4));
    net.register_module("prelu", nn::PReLU());
    net.register_module("fp8", Fp8Linear(5, 7));
    nn::ModuleList list(nn::Linear(2, 2), nn::LayerNorm(nn::LayerNormOptions({2})));
    list->push_back(nn::Sequential(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2)));
    net.register_module("list", list);
    net.register_module("transformer",
                        nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2)));
  });
}

TEST(DeferredInit, InitializersGiveTheSameValues) {
  expect_built_as_direct([](BuiltImpl& net) {
    const auto add = [&](const char* name, at::IntArrayRef shape) {
      return net.register_parameter(name, torch::empty(shape));
    };
    nn::init::kaiming_normal_(add("kaiming_normal", {6, 5}));
    nn::init::xavier_uniform_(add("xavier_uniform", {6, 5}));
    nn::init::orthogonal_(add("orthogonal", {6, 5}));
    nn::init::eye_(add("eye", {6, 5}));
    nn::init::dirac_(add("dirac", {4, 4, 3}));
    nn::init::sparse_(add("sparse", {6, 5}), 0.4);
    nn::init::constant_(add("constant", {6, 5}), 2.5);
    const at::Tensor random = add("random", {40});
    const torch::NoGradGuard no_grad;
    random.exponential_().add_(torch::randn({40})).mul_(torch::bernoulli(torch::full({40}, 0.5)));
    net.register_buffer("permutation", torch::randperm(9));
    net.register_buffer("mask", torch::tril(torch::ones({4, 4})).to(torch::kBool));
    net.register_buffer("positions", torch::arange(12).view({3, 4}).t().contiguous());
  });
}

TEST(DeferredInit, ViewsTiedParametersAndNewDataAreFollowed) {
  expect_built_as_direct([](BuiltImpl& net) {
    nn::Embedding embedding(9, 4);
    nn::Linear head(4, 9);
    net.register_module("embedding", embedding);
    net.register_module("head", head);
    net.register_parameter("tied", embedding->weight);
    head->weight.set_data(embedding->weight);
    const torch::NoGradGuard no_grad;
    embedding->weight.narrow(0, 2, 3).fill_(0.5);
    embedding->weight.select(1, 1).normal_();
    embedding->weight[0].slice(0, 0, 4, 2).zero_();
    head->bias.set_data(torch::full({9}, 3.0));
    head->bias.data().mul_(2);
    const at::Tensor whole = torch::rand({8});
    net.register_buffer("first", whole.slice(0, 0, 4));
    net.register_buffer("second", whole.slice(0, 4, 8));
    whole.add_(1);
    net.register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false);
    net.register_parameter("late", torch::ones({2})).set_requires_grad(false);
    net.register_buffer("turned", torch::rand({3, 5}).t());
    net.register_buffer("half", torch::rand({4}).to(torch::kHalf));
  });
}

TEST(DeferredInit, TiedParametersStayOneTensor) {
  auto deferred = deferred_init([] {
    return Built([](BuiltImpl& net) {
      const at::Tensor weight = net.register_parameter("a", torch::randn({2, 3}));
      net.register_parameter("b", weight);
    });
  });
  ASSERT_EQ(deferred.tensors().size(), 1u);
  EXPECT_EQ(deferred.tensors()[0].name, "a");
  materialize_in_place(deferred);
  EXPECT_TRUE(deferred->named_parameters()["a"].is_same(deferred->named_parameters()["b"]));

  auto shared = deferred_init([] {
    return Built([](BuiltImpl& net) {
      const at::Tensor weight = net.register_parameter("a", torch::randn({2, 3}));
      net.register_parameter("b", torch::empty({2, 3})).set_data(weight);
    });
  });
  ASSERT_EQ(shared.tensors().size(), 2u);
  materialize_in_place(shared);
  EXPECT_EQ(shared->parameters()[0].data_ptr(), shared->parameters()[1].data_ptr());
}

TEST(DeferredInit, RealTensorsMixWithDeferredOnes) {
  const at::Tensor outside = torch::full({3}, 7.0);
  expect_built_as_direct([&](BuiltImpl& net) {
    at::Tensor values = torch::tensor({1.0, 2.0, 3.0});
    EXPECT_TRUE(values.is_cpu());
    EXPECT_EQ(values[1].item<double>(), 2);
    EXPECT_EQ(torch::tensor(3).item<int>(), 3);
    const at::Tensor weight = net.register_parameter("weight", torch::randn({3}));
    const torch::NoGradGuard no_grad;
    weight.mul_(values).add_(outside);
    values.fill_(100);  // after its use
    weight.add_(values.sum());
    net.register_buffer("constant", torch::tensor({4, 5, 6}));
    net.register_buffer("scalar", torch::tensor(0.5));
    at::Tensor written = torch::tensor({1.0, 1.0, 1.0});
    written.add_(torch::ones({3}));
    written.mul_(2);
    net.register_buffer("written", written);
    net.register_buffer("drawn", torch::zeros({5}, torch::kCPU).normal_());
    net.register_buffer("told", torch::randn({5}, torch::kCPU));
    const std::vector<float> numbers = {1, 2};
    net.register_buffer("bytes", torch::from_blob(const_cast<float*>(numbers.data()), {2}).clone());
    net.register_buffer("like", torch::zeros({2}, weight.options()));
  });
}

TEST(DeferredInit, ItsOwnGeneratorsAreFollowed) {
  const auto build = [](at::Generator generator) {
    return [generator] {
      return Built([&](BuiltImpl& net) {
        const at::Tensor weight = net.register_parameter("weight", torch::empty({50}));
        const torch::NoGradGuard no_grad;
        weight.normal_(0, 1, generator);
        net.register_buffer("noise", torch::rand({5}, generator));
      });
    };
  };
  const Built direct = build(at::make_generator<at::CPUGeneratorImpl>(5))();
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  auto deferred = deferred_init(build(generator));
  torch::rand({7}, generator);
  materialize_in_place(deferred);
  expect_same_state(*direct, *deferred);
}

struct Placed {
  std::vector<std::string> names;
  int64_t peak = 0, whole = 0, largest = 0;
};

// Materializes without keeping values; returns the peak of live bytes.
template <typename F>
Placed drop_values(F&& build) {
  auto deferred = deferred_init(build);
  Placed placed;
  std::map<const void*, std::string> names;
  for (const DeferredTensor& each : deferred.tensors()) {
    const auto bytes = static_cast<int64_t>(each.tensor.nbytes());
    names[each.tensor.unsafeGetTensorImpl()] = each.name;
    placed.whole += bytes;
    placed.largest = std::max(placed.largest, bytes);
  }
  const int64_t before = LiveBytes::now();
  LiveBytes::forget_peak();
  deferred.materialize([&](const at::Tensor& tensor, at::Tensor value) {
    EXPECT_EQ(tensor.sizes(), value.sizes());
    EXPECT_FALSE(value.requires_grad());
    placed.names.push_back(names.at(tensor.unsafeGetTensorImpl()));
  });
  placed.peak = LiveBytes::peak() - before;
  return placed;
}

TEST(DeferredInit, HoldsOneTensorAtATime) {
  const LiveBytes counting;
  const auto build = [] {
    nn::ModuleList list;
    for (int i = 0; i < 8; ++i) list->push_back(nn::Linear(128, 128));
    return list;
  };
  const int64_t before = LiveBytes::now();
  const auto deferred = deferred_init(build);
  EXPECT_LT(LiveBytes::now() - before, 20000);  // mostly a generator's state
  const Placed placed = drop_values(build);
  EXPECT_EQ(placed.largest, 128 * 128 * 4);
  EXPECT_LE(placed.peak, placed.largest + 64);
  EXPECT_EQ(placed.names.size(), 16u);
  EXPECT_EQ(placed.names.front(), "0.weight");
}

TEST(DeferredInit, AModelThatIsInitializedAgainAtTheEndIsNotHeldMeanwhile) {
  const LiveBytes counting;
  const auto build = [] {
    return Built([](BuiltImpl& net) {
      for (int i = 0; i < 8; ++i) {
        net.register_module("layer" + std::to_string(i), nn::Linear(64, 64));
      }
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : net.parameters()) {
        if (parameter.dim() == 2) nn::init::normal_(parameter, 0, 0.02);
      }
    });
  };
  const Placed placed = drop_values(build);
  EXPECT_LE(placed.peak, placed.largest + 64 * 4 + 64);
  expect_as_direct(build);
}

TEST(DeferredInit, WhatIsStillNeededIsHeld) {
  const LiveBytes counting;
  const auto build = [] {
    return Built([](BuiltImpl& net) {
      const at::Tensor a = net.register_buffer("a", torch::rand({1000}));
      const at::Tensor b = net.register_buffer("b", torch::rand({1000}));
      net.register_buffer("c", torch::rand({10}));
      b.copy_(a);
    });
  };
  const Placed placed = drop_values(build);
  // b is overwritten completely, so only a is held.
  EXPECT_LE(placed.peak, 8000 + 40 + 64);
  EXPECT_GE(placed.peak, 8000);
  EXPECT_EQ(placed.names, (std::vector<std::string>{"c", "a", "b"}));
  expect_as_direct(build);
}

TEST(DeferredInit, ReadingAValueNamesTheOperator) {
  const auto error = [](const std::function<void(const at::Tensor&)>& read) {
    return error_of([&] {
      deferred_init([&] {
        return Built([&](BuiltImpl& net) { read(net.register_buffer("x", torch::rand({3}))); });
      });
    });
  };
  EXPECT_NE(error([](const at::Tensor& x) { x.sum().item<float>(); }).find("aten::item needs"),
            std::string::npos);
  EXPECT_NE(error([](const at::Tensor& x) { x.equal(x); }).find("aten::equal"), std::string::npos);
  EXPECT_NE(error([](const at::Tensor& x) { x.nonzero(); }).find("aten::nonzero"),
            std::string::npos);
  EXPECT_NE(error([](const at::Tensor& x) {
              if (x.sum().is_nonzero()) x.fill_(1);
            }).find("aten::is_nonzero"),
            std::string::npos);
  const std::string remedy = error([](const at::Tensor& x) { x.max().item(); });
  EXPECT_NE(remedy.find("torch::kCPU"), std::string::npos) << remedy;
}

TEST(DeferredInit, MistakesAreNamedAndLeaveTheThreadAsItWas) {
  EXPECT_NE(error_of([] {
              deferred_init([]() -> nn::Linear { throw Error("no such layer"); });
            }).find("no such layer"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              deferred_init([] {
                deferred_init([] { return nn::Linear(1, 1); });
                return nn::Linear(1, 1);
              });
            }).find("inside a deferred_init"),
            std::string::npos);
  EXPECT_TRUE(torch::ones({2}).is_cpu());
  auto deferred = deferred_init([] { return nn::Linear(2, 2); });
  EXPECT_FALSE(deferred.materialized());
  materialize_in_place(deferred);
  EXPECT_TRUE(deferred.materialized());
  EXPECT_NE(error_of([&] { materialize_in_place(deferred); }).find("already materialized"),
            std::string::npos);

  const at::Tensor large = torch::ones({1 << 20});
  auto changed = deferred_init([&] {
    return Built([&](BuiltImpl& net) { net.register_buffer("x", torch::zeros({1}) + large); });
  });
  large.fill_(2);
  EXPECT_NE(error_of([&] { materialize_in_place(changed); }).find("was changed later"),
            std::string::npos);
}

class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

TEST(DeferredInit, ATensorThatIsKeptWithoutBeingRegisteredIsWarnedOf) {
  Warnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  at::Tensor kept;
  deferred_init([&] {
    nn::LSTM lstm(nn::LSTMOptions(3, 4));
    kept = torch::full({5, 2}, 1.0).t();
    return lstm;
  });
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_NE(warnings.texts[0].find("shape [5, 2] made by aten::full is kept"), std::string::npos)
      << warnings.texts[0];
}

TEST(DeferredInit, AModuleCanBeUsedAfterwards) {
  set_seed(4);
  nn::LSTM direct(nn::LSTMOptions(3, 4));
  set_seed(4);
  auto deferred = deferred_init([] { return nn::LSTM(nn::LSTMOptions(3, 4)); });
  nn::LSTM lstm = materialize_in_place(deferred);
  const at::Tensor input = torch::ones({2, 1, 3});
  const at::Tensor expected = std::get<0>(direct(input)), got = std::get<0>(lstm(input));
  EXPECT_TRUE(expected.equal(got));
  expected.sum().backward();
  got.sum().backward();
  EXPECT_TRUE(direct->parameters()[0].grad().equal(lstm->parameters()[0].grad()));
}

}  // namespace
}  // namespace muster
