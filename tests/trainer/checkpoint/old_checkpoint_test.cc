// Checkpoints that 0.2.0 wrote on two ranks, loaded on one; names that meet; steps saved twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/lost_saves.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/old_run.h"
#include "support/child_process.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

class OldCheckpoints : public ::testing::TestWithParam<OldRunShape> {
 protected:
  static void SetUpTestSuite() {
    files_ = std::make_unique<TemporaryDirectory>();
    ChildProcess tar(
        {"/bin/tar", "-xJf", TestSource("tests/trainer/checkpoint/checkpoints-0.2.0.tar.xz"), "-C",
         files_->path()},
        {{"PATH", "/usr/bin:/bin"}});
    const ChildResult result =
        tar.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  static void TearDownTestSuite() { files_.reset(); }

  inline static std::unique_ptr<TemporaryDirectory> files_;
};

// Every tensor of models, optimizers and schedules, unsharded.
TensorMap everything_in(const std::string& path) {
  const CheckpointReader reader(path, Topology{}, /*verify_hashes=*/true);
  TensorMap all;
  for (const char* prefix : {"model", "model.1", "optim", "optim.1", "scheduler", "scheduler.1"}) {
    for (auto& [name, tensor] : reader.read(prefix)) all[std::string(prefix) + "/" + name] = tensor;
  }
  return all;
}

TEST_P(OldCheckpoints, LoadAndAreSavedAgainWithTheSameNamesAndValues) {
  const std::string old = *files_ / GetParam().name();
  const TensorMap expected = everything_in(old + "/step-2");
  ASSERT_GT(expected.size(), 15U);
  OldRun run(GetParam(), old, /*seed=*/2);
  ASSERT_EQ(run.accelerator.load_state(), 2);
  const TensorMap found = everything_in(run.accelerator.save_state(3));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(tensor.equal(found.at(name))) << name;
  }
}

// The one in which names have met is left out: it lost the state of two parameters.
std::vector<OldRunShape> whole_shapes() {
  std::vector<OldRunShape> shapes = old_run_shapes();
  std::erase_if(shapes, [](const OldRunShape& one) { return one.meet && one.optimizers == 1; });
  return shapes;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_F(OldCheckpoints, AStateOfTwoParametersIsRefusedAndNothingIsLoaded) {
  const OldRunShape shape{"none", 2, 1, true};
  OldRun run(shape, *files_ / shape.name(), /*seed=*/2);
  const at::Tensor before = run.nets[0].unwrap()->below_->weight.clone();
  const std::string message = message_of([&] { run.accelerator.load_state(); });
  EXPECT_NE(message.find("'1.bias' of prepared model 1 and 'bias' of prepared model 2"),
            std::string::npos)
      << message;
  EXPECT_TRUE(before.equal(run.nets[0].unwrap()->below_->weight));
}

class NamesThatMeet : public ::testing::TestWithParam<OldRunShape> {};

TEST_P(NamesThatMeet, AreSavedAndLoadedApart) {
  const TemporaryDirectory directory;
  TensorMap expected;
  {
    OldRun run(GetParam(), directory.path(), /*seed=*/1);
    run.step();
    run.step();
    expected = everything_in(run.accelerator.save_state(2));
  }
  const Manifest manifest = read_checkpoint(directory / "step-2", /*verify_hashes=*/true);
  // Only one optimizer's names can meet: with one for each model the old ones will do.
  EXPECT_EQ(manifest.version, GetParam().optimizers == 1 ? 2 : 1);
  for (const char* field : {"exp_avg", "exp_avg_sq", "step"}) {
    const auto count = std::count_if(expected.begin(), expected.end(), [&](const auto& named) {
      return named.first.starts_with("optim") &&
             named.first.find(std::string("/") + field + "/") != std::string::npos;
    });
    EXPECT_EQ(count, 6) << field;  // weight and bias of three layers
  }
  OldRun run(GetParam(), directory.path(), /*seed=*/2);
  ASSERT_EQ(run.accelerator.load_state(), 2);
  const TensorMap found = everything_in(run.accelerator.save_state(2));
  ASSERT_EQ(found.size(), expected.size());
  run.step();
  const TensorMap next = everything_in(run.accelerator.save_state(3));
  OldRun again(GetParam(), directory / "unused", /*seed=*/1);
  for (int i = 0; i < 3; ++i) again.step();
  for (const auto& [name, tensor] : everything_in(again.accelerator.save_state(3))) {
    EXPECT_TRUE(next.contains(name) && tensor.equal(next.at(name))) << name;
  }
}

std::vector<OldRunShape> meeting_shapes() {
  std::vector<OldRunShape> shapes;
  for (const char* stage : {"none", "zero1", "zero2", "zero3"}) {
    for (const int optimizers : {1, 2}) shapes.push_back({stage, 2, optimizers, true});
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Now, NamesThatMeet, ::testing::ValuesIn(meeting_shapes()),
                         [](const auto& shape) {
                           std::string name = shape.param.name();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SavedSteps, ASecondSaveReturnsAtOnceOnlyForTheSameState) {
  const TemporaryDirectory directory;
  OldRun run({"none"}, directory.path(), /*seed=*/1);
  run.step();
  const std::string path = run.accelerator.save_state(1);
  EXPECT_EQ(run.accelerator.save_state(1), path);
  run.step();
  const std::string message = message_of([&] { run.accelerator.save_state(1); });
  EXPECT_NE(message.find("step 1 was saved or loaded by this run"), std::string::npos) << message;
  run.accelerator.save_state(2);
  EXPECT_NE(message_of([&] { run.accelerator.save_state(1); }), "");
  std::filesystem::remove_all(directory / "step-2");
  EXPECT_NE(message_of([&] { run.accelerator.save_state(2); }).find("gone"), std::string::npos);
  EXPECT_EQ(run.accelerator.load_state(), 1);
  EXPECT_EQ(run.accelerator.save_state(1), path);
  run.step();
  EXPECT_NE(message_of([&] { run.accelerator.save_state(1); }), "");
}

TEST(SavedSteps, WeightsLoadedSinceAreAnotherState) {
  const TemporaryDirectory directory;
  OldRun run({"none"}, directory.path(), /*seed=*/1);
  run.accelerator.save_model(run.nets[0], directory / "weights");
  run.accelerator.save_state(1);
  load_model(*run.nets[0].unwrap(), directory / "weights");
  EXPECT_NE(message_of([&] { run.accelerator.save_state(1); }), "");
}

TEST(SavedSteps, ALastSaveThatFailsIsToldByEndTrainingAndTheExitCode) {
  const TemporaryDirectory directory;
  ASSERT_EQ(lost_save(), "");
  const auto train = [&](int, char**) {
    AcceleratorOptions options = old_run_options({"none"}, directory.path());
    options.checkpoint.asynchronous = true;
    options.on_checkpoint_stage = [](const char* stage) {
      if (stage == std::string("shard")) throw Error("the disk is gone");
    };
    Accelerator accelerator(options);
    auto model = accelerator.prepare(torch::nn::Linear(2, 2));
    EXPECT_NE(message_of([&] {
                accelerator.save_state(1);
                accelerator.wait_for_checkpoint();
              }).find("the disk is gone"),
              std::string::npos);
    accelerator.save_state(1);  // the failed save has left no step 1
    EXPECT_FALSE(accelerator.end_training());
    EXPECT_FALSE(accelerator.end_training());
    return 0;
  };
  EXPECT_EQ(run_main(0, nullptr, train), 1);
  EXPECT_EQ(run_main(0, nullptr, [](int, char**) { return 143; }), 143);
  EXPECT_NE(lost_save().find("the disk is gone"), std::string::npos);
}

TEST(ModuleNames, AParameterAndABufferOfOneNameAreRefused) {
  const TemporaryDirectory directory;
  OldRun run({"none"}, directory.path(), /*seed=*/1);
  run.nets[0].unwrap()->below_->register_buffer("weight", torch::ones({1}));
  const std::string message = message_of([&] { run.accelerator.save_state(1); });
  EXPECT_NE(message.find("one name, 'weights.weight'"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Of020, OldCheckpoints, ::testing::ValuesIn(whole_shapes()),
                         [](const auto& shape) {
                           std::string name = shape.param.name();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace muster
