// Closures, another run's state and models of very many tensors, on several ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<ChildResult> run(int world, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TestBuild("bin/tests/trainer_accelerator_ranks"));
  return run_ranks({.argv = arguments, .world_size = world});
}

std::vector<double> numbers(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> all;
  for (double number = 0; stream >> number;) all.push_back(number);
  return all;
}

double difference(const std::string& a, const std::string& b) {
  const std::vector<double> ours = numbers(a), others = numbers(b);
  if (ours.empty() || ours.size() != others.size()) return HUGE_VAL;
  double greatest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    greatest = std::max(greatest, std::abs(ours[i] - others[i]));
  }
  return greatest;
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Closures, AreEvaluatedEquallyOftenByTheMeanOfTheRanksLosses) {
  const auto ranks = run(2, {"closure", "none", "zero1", "zero2", "zero3"});
  for (const ChildResult& rank : ranks) ASSERT_EQ(rank.exit_code, 0) << rank.output;
  const ChildResult one = run(1, {"closure", "none"})[0];
  ASSERT_EQ(one.exit_code, 0) << one.output;
  auto first = said(ranks[0]), second = said(ranks[1]), alone = said(one);
  for (const std::string stage : {"none", "zero1", "zero2", "zero3"}) {
    // More than twice a step: the first steps are too long.
    EXPECT_EQ(first[stage + ".evaluations"], alone["none.evaluations"]) << stage;
    EXPECT_EQ(second[stage + ".evaluations"], alone["none.evaluations"]) << stage;
    EXPECT_GT(numbers(alone["none.evaluations"])[0], 2);
    EXPECT_LT(difference(first[stage + ".losses"], alone["none.losses"]), 1e-3) << stage;
    EXPECT_EQ(first[stage + ".weights"], second[stage + ".weights"]) << stage;
    EXPECT_EQ(first[stage + ".lookahead"], second[stage + ".lookahead"]) << stage;
    EXPECT_LT(difference(first[stage + ".lookahead"], alone["none.lookahead"]), 1e-4) << stage;
    EXPECT_LT(difference(first[stage + ".weights"], alone["none.weights"]), 1e-4) << stage;
  }
  expect_in("the closure returned an undefined tensor: let it return the loss", first["no_loss"]);
  expect_in("the closure returned a tensor of shape [3]", first["many_losses"]);
  expect_in("no prepared model was called", first["no_forward"]);
  expect_in("step(closure): gradients accumulate over 4 micro-batches", first["window"]);
  expect_in("stepped", first["later"]);
  expect_in("step(closure): fp16's GradScaler", first["fp16"]);
}

// As with a line search that multiplies gradients, of which each rank has another shard.
TEST(Closures, ThatAreEvaluatedDifferentlyOftenEndWithAnErrorOnAllRanks) {
  for (const ChildResult& rank : run(2, {"parting", "zero1"})) {
    ASSERT_EQ(rank.exit_code, 0) << rank.output;
    auto answers = said(rank);
    expect_in("optimizer.step(closure)", answers["parting"]);
    expect_in("another evaluation", answers["parting"]);
    expect_in("the end of the step", answers["parting"]);
  }
}

TEST(AnotherRunsState, IsLoadedWholeOrAsFarAsItFits) {
  const TemporaryDirectory directory;
  const auto ranks = run(2, {"base", directory.path(), "none", "zero2", "zero3"});
  for (const ChildResult& rank : ranks) {
    ASSERT_EQ(rank.exit_code, 0) << rank.output;
    auto answers = said(rank);
    for (const std::string stage : {"none", "zero2", "zero3"}) {
      EXPECT_EQ(answers[stage + ".whole"], "equal");
      EXPECT_EQ(answers[stage + ".iteration"], "3");
      EXPECT_EQ(answers[stage + ".hooked"], "2step-2 ");
      EXPECT_EQ(answers[stage + ".restarted"], "3step-3 ");
      EXPECT_EQ(
          answers[stage + ".loaded"],
          "model/body.bias model/body.weight optim/exp_avg/body.bias optim/exp_avg/body.weight "
          "optim/exp_avg_sq/body.bias optim/exp_avg_sq/body.weight optim/step/body.bias "
          "optim/step/body.weight ");
      EXPECT_EQ(answers[stage + ".missing"], "");
      EXPECT_EQ(answers[stage + ".unexpected"], "optim/step/head.bias optim/step/head.weight ");
      EXPECT_EQ(answers[stage + ".mismatched"],
                "model/head.bias model/head.weight optim/exp_avg/head.bias "
                "optim/exp_avg/head.weight optim/exp_avg_sq/head.bias "
                "optim/exp_avg_sq/head.weight ");
      EXPECT_EQ(answers[stage + ".fit"], "head stays, body came");
      EXPECT_EQ(answers[stage + ".others"], "0 0");
    }
    expect_in("step-2/shard-00000-of-00002.safetensors", answers["damaged"]);
    expect_in("nowhere does not exist: name a checkpoint", answers["absent"]);
    expect_in("has neither a manifest.json nor checkpoints step-N", answers["empty"]);
    expect_in("from is empty", answers["unnamed"]);
    expect_in("'head.weight' has a different shape", answers["strict"]);
    EXPECT_EQ(answers["worker"], "1 2");
    expect_in("the function is empty", answers["empty_hook"]);
    // States that torch's own step() would not survive, or that belong to another kind.
    EXPECT_EQ(answers["rmsprop.loaded"],
              "model/body.bias model/body.weight model/head.bias "
              "model/head.weight ");
    EXPECT_EQ(answers["rmsprop.missing"],
              "optim/body.bias optim/body.weight optim/head.bias optim/head.weight ");
    EXPECT_EQ(answers["rmsprop.unexpected"],
              "optim/exp_avg/body.bias optim/exp_avg/body.weight optim/exp_avg/head.bias "
              "optim/exp_avg/head.weight optim/exp_avg_sq/body.bias optim/exp_avg_sq/body.weight "
              "optim/exp_avg_sq/head.bias optim/exp_avg_sq/head.weight optim/step/body.bias "
              "optim/step/body.weight optim/step/head.bias optim/step/head.weight ");
    EXPECT_EQ(answers["momentum.missing"], answers["rmsprop.missing"]);
    EXPECT_EQ(answers["amsgrad.missing"], answers["rmsprop.missing"]);
    EXPECT_EQ(answers["adam.missing"], "");
    for (const std::string optimizer : {"rmsprop", "momentum", "amsgrad", "adam"})
      EXPECT_EQ(answers[optimizer + ".step"], "none");
  }
}

// Three ranks: their sums depend on the buckets.
TEST(ManyTensors, AreReducedInBoundedBucketsUnlessACheckpointHasLarger) {
  const TemporaryDirectory directory;
  for (const ChildResult& rank : run(3, {"buckets", directory.path()})) {
    ASSERT_EQ(rank.exit_code, 0) << rank.output;
    auto answers = said(rank);
    EXPECT_EQ(answers["buckets"], "512 512 76 ");
    EXPECT_EQ(answers["resumed"], answers["buckets"]);
    EXPECT_EQ(answers["same"], "equal");
    EXPECT_EQ(answers["old"], "1100 ");
  }
}

}  // namespace
}  // namespace muster
