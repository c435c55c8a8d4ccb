// What changes after prepare(): layers that are unfrozen and frozen are followed in every stage, with
// the numbers of one process on all batches and the same bits after a resume; what training cannot
// follow ends all ranks with the parameter's name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<ChildResult> run(int world, int test_world, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TestBuild("bin/tests/trainer_changes_ranks"));
  return run_ranks({.argv = arguments,
                    .world_size = world,
                    .environment = {{"TEST_WORLD", std::to_string(test_world)}}});
}

std::vector<double> numbers(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> all;
  for (double number = 0; stream >> number;) all.push_back(number);
  return all;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || a.size() != b.size()) return HUGE_VAL;
  double greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
  return greatest;
}

struct World {
  int ranks;
  std::vector<std::string> stages;
};

class Unfrozen : public ::testing::TestWithParam<World> {};
// With three ranks, sums depend on the order of the buckets; with four, two share a copy.
INSTANTIATE_TEST_SUITE_P(Ranks, Unfrozen,
                         ::testing::Values(World{2, {"ddp", "zero1", "zero2", "zero3"}},
                                           World{3, {"ddp"}}, World{4, {"zero2"}}));

TEST_P(Unfrozen, LayersAndOptimizersOfAUnitTrainAsInOneProcess) {
  const auto& [count, stages] = GetParam();
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = stages;
  arguments.insert(arguments.begin(), "train");
  arguments.push_back(directory.path());
  const auto ranks = run(count, count, arguments);
  for (const ChildResult& rank : ranks) ASSERT_EQ(rank.exit_code, 0) << rank.output;
  const ChildResult alone = run(1, count, {"train", "ddp", directory.path()})[0];
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  auto together = said(ranks[0]);
  const auto expected = said(alone);
  EXPECT_EQ(expected.size(), 3u);
  for (const auto& [name, weights] : expected) {
    for (const std::string& stage : stages) {
      const std::string way = stage + name.substr(name.find('.'));
      EXPECT_LT(difference(numbers(together[way]), numbers(weights)), 1e-5) << way;
      EXPECT_EQ(together[way + ".resumed"], way.ends_with("clear_apart") ? "" : "equal") << way;
    }
  }
}

struct Case {
  const char* stage;
  const char* change;
  const char* who;
  const char* answer;  // in every rank's
};

// All in one set of processes: an Accelerator may follow one whose group has failed.
const Case kCases[] = {
    Case{"ddp", "unfreeze", "one", "rank 1: 'head.weight' requires gradients"},
    Case{"zero3", "freeze", "one", "rank 1: 'body.2.weight' requires no gradients"},
    Case{"ddp", "unlike", "all",
         "Rank 0: nothing more; rank 1: 'head.bias' requires gradients: make the same changes"},
    Case{"ddp", "dtype", "all", "'head.weight' is Double on cpu; it was Float on cpu: convert"},
    Case{"ddp", "dtype", "one", "rank 1: 'head.weight' is Double on cpu"},
    Case{"zero1", "dtype", "all", "'head.weight' is Double on cpu; it was Float on cpu: convert"},
    Case{"ddp", "dtype-and-back", "all", "followed"},
    Case{"ddp", "shape", "all", "'head.weight' has the shape [3, 1]; it had [3, 24]: give the"},
    Case{"ddp", "strides", "all", "followed"},
    Case{"zero2", "memory", "all", "'head.bias' has other memory; it is sharded over the ranks"},
    Case{"zero2", "memory", "one", "rank 1: 'head.bias' has other memory"},
    Case{"zero3", "group", "all", "followed"},
    Case{"zero1", "group", "one", "rank 1: 'head.weight', 'head.bias' new"},
    Case{"ddp", "stranger", "all", "parameter 0 of group 1 (float32 [7]) belongs to no prepared"},
    Case{"ddp", "registered", "all", "'late' belongs to no prepared model"},
    Case{"zero2", "twice", "all", "'body.0.weight' is in an earlier group of the optimizer, too"},
    Case{"ddp", "of-another-optimizer", "all",
         "'head.weight' is already a parameter of a prepared optimizer (number 2 of 2)"},
    Case{"zero2", "train-and-eval", "all", "followed"}};

TEST(Changes, AreFollowedOrEndAllRanksWithTheName) {
  std::vector<std::string> arguments = {"answer"};
  for (const Case& one : kCases) {
    arguments.push_back(std::string(one.stage) + " " + one.change + " " + one.who);
  }
  for (const ChildResult& rank : run(2, 2, arguments)) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    auto answers = said(rank);
    for (size_t i = 0; i < std::size(kCases); ++i) {
      const std::string& text = answers["answer" + std::to_string(i)];
      EXPECT_NE(text.find(kCases[i].answer), std::string::npos) << arguments[i + 1] << ": " << text;
    }
  }
}

}  // namespace
}  // namespace muster
