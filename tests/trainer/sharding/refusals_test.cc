// Unsupported uses of a sharded model throw with the reason, before anything is lost.
#include <gtest/gtest.h>
#include <muster/trainer.h>

#include <functional>
#include <optional>

#include "odd_modules.h"
#include "support/error_text.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

at::Tensor tokens() { return torch::zeros({2, 3}, at::kLong); }

struct Wrong {
  const char* part_of_error;
  std::function<void(AcceleratorOptions&)> set;
};

TEST(ShardingRefuses, OptionsThatCannotBe) {
  const Wrong all[] = {
      {"shard_group_size is 3, which does not divide the 1 ranks",
       [](auto& options) { options.sharding.shard_group_size = 3; }},
      {"the model has no module 'block'",
       [](auto& options) { options.sharding.units = {"block"}; }},
      {"unit_numel is -5", [](auto& options) { options.sharding.unit_numel = -5; }},
      {"unit_numel_min is -1", [](auto& options) { options.sharding.unit_numel_min = -1; }},
      {"param_dtype is Int: a floating-point type",
       [](auto& options) { options.sharding.param_dtype = at::kInt; }},
      {"reduce_dtype is Long: a floating-point type",
       [](auto& options) { options.sharding.reduce_dtype = at::kLong; }},
      {"gradient_compression does not act",
       [](auto& options) {
         options.data_parallel.gradient_compression = GradientCompression::bf16;
       }},
      {"param_dtype needs zero2 or zero3", [](auto& options) {
         options.sharding.stage = ZeroStage::zero1;
         options.sharding.param_dtype = at::kHalf;
       }}};
  for (const Wrong& wrong : all) {
    AcceleratorOptions options{.sharding = {.stage = ZeroStage::zero3}};
    wrong.set(options);
    const std::string error = error_of([&] {
      Accelerator accelerator(options);
      OddNet net("usual");
      accelerator.prepare(net);
    });
    EXPECT_NE(error.find(wrong.part_of_error), std::string::npos) << error;
  }
}

// A model that is sharded by zero3, trained for a step.
struct Sharded {
  Sharded() {
    optimizer.emplace(accelerator.prepare(AdamW(net->parameters(), {.lr = 0.01})));
    accelerator.backward(model(tokens()).pow(2).mean());
    optimizer->step();
    optimizer->zero_grad();
  }
  Accelerator accelerator{{.sharding = {.stage = ZeroStage::zero3}}};
  OddNet net{"usual"};
  PreparedModel<OddNet> model = accelerator.prepare(net);
  std::optional<PreparedOptimizer> optimizer;
};

TEST(ShardingRefuses, ReadingAParameterWithoutMemory) {
  Sharded sharded;
  const TemporaryDirectory directory;
  const std::vector<std::function<void()>> reads = {
      [&] { sharded.net->weight.cpu(); }, [&] { sharded.net->forward(tokens()); },
      [&] { sharded.net->weight.data_ptr(); },
      [&] { torch::save(sharded.net, directory / "net.pt"); }};
  for (const auto& read : reads) {
    EXPECT_NE(error_of(read).find("sharded over the ranks"), std::string::npos) << error_of(read);
  }
  const auto full = sharded.accelerator.full_parameters(sharded.model);
  for (const auto& read : reads) EXPECT_EQ(error_of(read), "");
}

TEST(ShardingRefuses, AModelThatIsPreparedTwice) {
  Sharded sharded;
  EXPECT_NE(error_of([&] { sharded.accelerator.prepare(sharded.net); }).find("already prepared"),
            std::string::npos);
}

TEST(ShardingRefuses, TwoOptimizersForOneParameterInEveryStage) {
  for (const ZeroStage stage : {ZeroStage::none, ZeroStage::zero1, ZeroStage::zero3}) {
    Accelerator accelerator({.sharding = {.stage = stage}});
    OddNet net("usual");
    const std::vector<at::Tensor> parameters = net->parameters();
    const std::vector<at::Tensor> first(parameters.begin(), parameters.begin() + 2);
    const std::vector<at::Tensor> others(parameters.begin() + 2, parameters.end());
    auto model = accelerator.prepare(net);
    accelerator.prepare(AdamW(parameters, {.lr = 0.01}));
    const auto again = [&] { accelerator.prepare(torch::optim::SGD({parameters[3]}, 0.1)); };
    EXPECT_NE(error_of(again).find("'" + net->named_parameters()[3].key() +
                                   "' is already a parameter of a prepared optimizer"),
              std::string::npos)
        << error_of(again);
    EXPECT_NE(error_of([&] { accelerator.prepare(net); }).find("already prepared"),
              std::string::npos);
    // Each parameter once, and all again after free_memory(): both are normal.
    accelerator.free_memory();
    OddNet other("usual");
    accelerator.prepare(other);
    accelerator.prepare(AdamW(other->blocks->parameters(), {.lr = 0.01}));
    accelerator.prepare(AdamW({other->weight}, {.lr = 0.1}));
  }
}

TEST(Prepare, RefusesWhatWasMovedFromAndWhatNobodyShares) {
  Accelerator accelerator;
  OddNet net("usual");
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  accelerator.prepare(std::move(optimizer));
  EXPECT_NE(error_of([&] { accelerator.prepare(std::move(optimizer)); })  // NOLINT: on purpose
                .find("has no parameters: was it moved from"),
            std::string::npos);
  OddNetImpl on_the_stack("usual");
  EXPECT_NE(error_of([&] { accelerator.prepare(&on_the_stack); }).find("no std::shared_ptr owns"),
            std::string::npos);
}

TEST(ShardingRefuses, LoopsWhoseRanksStepAlone) {
  Sharded sharded;
  EXPECT_NE(error_of([&] { LocalSGD local(sharded.model); }).find("LocalSGD: the model is sharded"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              JoinUnevenInputs join({&sharded.model.data_parallel()});
            }).find("its steps are collective"),
            std::string::npos);
}

TEST(ShardingRefuses, SparseGradients) {
  Accelerator accelerator({.sharding = {.stage = ZeroStage::zero2}});
  torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true)));
  EXPECT_NE(error_of([&] { accelerator.prepare(net); }).find("'0.weight' has sparse gradients"),
            std::string::npos);
}

// Muster's own take their state along; see torch_runs_test.
TEST(ShardingRefuses, OptimizersOfTorchThatHaveStepped) {
  Accelerator accelerator({.sharding = {.stage = ZeroStage::zero2}});
  OddNet net("usual");
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.01));
  net->forward(tokens()).pow(2).mean().backward();
  adamw.step();
  auto model = accelerator.prepare(net);
  const std::string error = error_of([&] { accelerator.prepare(std::move(adamw)); });
  EXPECT_NE(error.find("has state from before the model was prepared"), std::string::npos) << error;
}

TEST(ShardingRefuses, AnOptimizerThatWasNotPrepared) {
  for (const ZeroStage stage : {ZeroStage::zero2, ZeroStage::zero3}) {
    Accelerator accelerator({.sharding = {.stage = stage}});
    OddNet net("usual");
    auto model = accelerator.prepare(net);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto step = [&] {
      accelerator.backward(model(tokens()).pow(2).mean());
      optimizer.step();
    };
    step();
    const std::string error = error_of(step);
    EXPECT_NE(error.find("no prepared optimizer steps on this model"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace muster
