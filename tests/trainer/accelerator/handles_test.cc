// What LibTorch programs write on a model, an optimizer, a schedule and a loader works on the
// prepared ones too, with `.` and with `->`. What they refuse is in compile/wrong_calls.cc; that
// model->forward(x) averages gradients over ranks, in processes/process_test.cc.
#include <gtest/gtest.h>
#include <muster/trainer.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace muster {
namespace {

struct TwoLayersImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) {
    ++forwards;
    return second(norm(first(input)));
  }
  int forwards = 0;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(3, 1));
};
TORCH_MODULE(TwoLayers);

struct Handles : ::testing::Test {
  Accelerator accelerator;
  TwoLayers net;
  const PreparedModel<TwoLayers> model = accelerator.prepare(net);
  const PreparedOptimizer optimizer = accelerator.prepare(SGD(model->parameters(), {.lr = 0.5}));
  const PreparedScheduler scheduler =
      accelerator.prepare(step_schedule({.step_size = 1, .gamma = 0.1}));
  at::Tensor samples = torch::rand({6, 4});
  const DataLoader<TensorDataset<at::Tensor>> loader =
      accelerator.prepare(DataLoader(TensorDataset{samples}, {.batch_size = 2}));
};

TEST_F(Handles, AModelIsCalledInEachWay) {
  model->eval();
  const at::Tensor expected = net->forward(samples);
  EXPECT_TRUE(model(samples).equal(expected));
  EXPECT_TRUE(model.forward(samples).equal(expected));
  EXPECT_TRUE(model->forward(samples).equal(expected));
  EXPECT_TRUE((*model)(samples).equal(expected));
  EXPECT_TRUE((*model).forward(samples).equal(expected));
  EXPECT_EQ(model.unwrap()->forwards, 6);
}

TEST_F(Handles, AModelHasItsModulesPartsAndModes) {
  EXPECT_EQ(model->parameters().size(), 6u);
  EXPECT_EQ(model.parameters(/*recurse=*/false).size(), 0u);
  EXPECT_EQ(model->named_parameters()["first.weight"].sizes(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(model->buffers().size(), 3u);
  EXPECT_TRUE(model->named_buffers().contains("norm.running_mean"));
  EXPECT_EQ(model->modules().size(), 4u);
  EXPECT_EQ(model->children().size(), 3u);
  EXPECT_TRUE(model->named_children().contains("second"));
  EXPECT_NE(model->name().find("TwoLayers"), std::string::npos);
  EXPECT_TRUE(model->is_training());
  model->eval();
  EXPECT_FALSE(net->is_training());
  model->train();
  EXPECT_TRUE(net->is_training());
  model.train(false);
  EXPECT_FALSE(model.is_training());
  std::ostringstream text;
  text << model;
  EXPECT_NE(text.str().find("Linear"), std::string::npos);
}

TEST_F(Handles, AModelIsOnItsDeviceAndOnNoOther) {
  model->to(accelerator.device());
  model->to(torch::kCPU);
  model.to(torch::Device("cpu"), /*non_blocking=*/true);
  EXPECT_THROW(model->to(torch::kMeta), std::invalid_argument);
}

TEST_F(Handles, ALoopReadsTheSameWithArrows) {
  // The mean of normalized values does not depend on the first layer.
  const at::Tensor before = net->second->bias.detach().clone();
  while (loader->epoch() < 2) {
    for (auto& batch : *loader) {
      accelerator.backward(model->forward(batch).mean());
      optimizer->step();
      scheduler->step();
      optimizer->zero_grad();
    }
  }
  EXPECT_FALSE(net->second->bias.equal(before));
  EXPECT_NEAR((*scheduler).get_last_lr()[0], 0.5e-6, 1e-12);
  EXPECT_FALSE(optimizer->step_was_skipped());
  EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), scheduler->get_last_lr()[0]);
  EXPECT_EQ(optimizer->defaults().get_lr(), 0.5);
}

TEST_F(Handles, GradientsAreReleasedOrZeroed) {
  accelerator.backward(model(samples).mean());
  (*optimizer).zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(net->first->weight.grad().abs().sum().item<double>(), 0);
  optimizer.zero_grad();
  EXPECT_FALSE(net->first->weight.grad().defined());
}

TEST_F(Handles, ALoaderIsReadInEachWay) {
  int batches = 0;
  for (auto& batch : loader) batches += batch.size(0) == 2;
  for (auto batch : *loader) batches += batch.size(0) == 2;
  for (auto batch = loader->begin(); batch != loader->end(); ++batch)
    batches += batch->size(0) == 2;
  for (auto batch = loader.begin(); batch != loader.end(); batch++) batches += batch->size(0) == 2;
  EXPECT_EQ(batches, 12);
  EXPECT_TRUE((*loader->begin()).equal(samples.narrow(0, 0, 2)));
  loader->set_epoch(7);
  EXPECT_EQ(loader->epoch(), 7);
  EXPECT_EQ(loader->size(), 3);
  EXPECT_EQ(loader->dataset_size(), 6);
  EXPECT_EQ(loader->dataset().size(), 6);
  EXPECT_EQ(loader->options().batch_size, 2);
  EXPECT_EQ(loader->position().epoch, 7);
}

TEST_F(Handles, OptimizersMayBeHeldByPointers) {
  TwoLayers other, third;
  accelerator.prepare(other);
  accelerator.prepare(third);
  std::unique_ptr<torch::optim::Optimizer> made =
      std::make_unique<torch::optim::Adam>(other->parameters(), 1e-3);
  const auto prepared = accelerator.prepare(std::move(made));
  EXPECT_EQ(prepared->param_groups()[0].params().size(), 6u);
  EXPECT_NO_THROW(accelerator.prepare(std::make_shared<AdamW>(third->parameters())));
  EXPECT_THROW(accelerator.prepare(std::unique_ptr<SGD>()), std::invalid_argument);
  EXPECT_THROW(accelerator.prepare(std::unique_ptr<torch::optim::Optimizer>(
                   new torch::optim::LBFGS(TwoLayers()->parameters()))),
               std::invalid_argument);
}

// torch::optim::Optimizer's own save writes nothing.
TEST(OptimizerArchive, TorchSaveKeepsRatesAndState) {
  at::Tensor weight = torch::ones({3}, at::TensorOptions().requires_grad(true));
  const auto step = [&](AdamW& optimizer) {
    weight.mutable_grad() = torch::tensor({1.0f, 2.0f, 3.0f});
    optimizer.step();
  };
  AdamW first({weight}, {.lr = 0.25});
  step(first);
  std::stringstream archive;
  torch::save(first, archive);
  AdamW second({weight});
  torch::load(second, archive);
  EXPECT_EQ(second.options().lr, 0.25);
  const TensorMap saved = first.parameter_state(weight);
  const TensorMap loaded = second.parameter_state(weight);
  ASSERT_EQ(loaded.size(), 3u);
  for (const auto& [name, value] : saved) EXPECT_TRUE(loaded.at(name).equal(value)) << name;
}

}  // namespace
}  // namespace muster
