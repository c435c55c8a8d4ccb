// A rank that evaluates alone: with zero3 the others must take part, so all ranks throw at once,
// naming the alternative; with every other stage it is allowed.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using Said = std::vector<std::map<std::string, std::string>>;

Said evaluate_alone(const char* stage, int world_size) {
  const TemporaryDirectory directory;
  Said ranks;
  for (const ChildResult& rank : run_ranks(
           {.argv = {TestBuild("bin/tests/trainer_evaluation_ranks"), stage, directory.path()},
 .world_size = world_size})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    ranks.push_back(said(rank));
  }
  return ranks;
}

constexpr char kAdvice[] =
    "rank 0: forward(zero3, evaluation: it gathers the parameters from all ranks, so all of them "
    "evaluate, equally often; for one rank alone all enter Accelerator::full_parameters(model) "
    "first)";

// Two ranks compare calls through shared memory, three over sockets.
class EvaluationOnOneRank : public ::testing::TestWithParam<int> {};

TEST_P(EvaluationOnOneRank, OfAModelDividedByZero3IsRefusedAtOnceOnAllRanks) {
  const Said ranks = evaluate_alone("zero3", GetParam());
  const std::map<std::string, std::string> others = {
      {"wait", "wait_for_everyone()"}, {"gather", "gather("},           {"step", "forward(zero3)"},
      {"eval_mode", "forward(zero3)"}, {"backward", "backward(zero3)"}, {"save", "save_state("}};
  for (const auto& rank : ranks) {
    for (const auto& [scenario, call] : others) {
      ASSERT_TRUE(rank.contains(scenario)) << scenario;
      EXPECT_NE(rank.at(scenario).find(kAdvice), std::string::npos) << rank.at(scenario);
      EXPECT_NE(rank.at(scenario).find(call), std::string::npos) << rank.at(scenario);
    }
    EXPECT_EQ(rank.at("inside"), "none");
    EXPECT_EQ(rank.at("all"), "none");
  }
  const std::string& left = ranks[0].at("leaves");
  EXPECT_NE(left.find("forward(zero3, evaluation"), std::string::npos) << left;
}

INSTANTIATE_TEST_SUITE_P(Ranks, EvaluationOnOneRank, ::testing::Values(2, 3));

TEST(EvaluationOnOneRank, IsAllowedWhereParametersAreWhole) {
  for (const char* stage : {"none", "zero2"}) {
    for (const auto& rank : evaluate_alone(stage, 2)) {
      for (const char* scenario : {"wait", "gather", "step", "backward", "save", "inside", "all"}) {
        EXPECT_EQ(rank.at(scenario), "none") << stage << " " << scenario;
      }
    }
  }
}

}  // namespace
}  // namespace muster
