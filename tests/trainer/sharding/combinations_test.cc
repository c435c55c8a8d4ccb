// Options combined: any three of precision, stage, clipping, accumulation, optimizers, models and an
// overflow give the norms, the weights and the scale that they give without sharding; where two ranks
// of four shard a copy, any two with a stage. combinations.py runs every cell of the table.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>

#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

class CombinationsTest : public ::testing::TestWithParam<int> {};

TEST_P(CombinationsTest, GiveWhatTheyGiveWithoutSharding) {
  const auto ranks = run_ranks({.argv = {TestBuild("bin/tests/trainer_combinations_ranks"), "few"},
                                .world_size = GetParam(),
                                .deadline = std::chrono::seconds(120)});
  for (const ChildResult& rank : ranks) ASSERT_EQ(rank.exit_code, 0) << rank.output;
  std::istringstream lines(ranks[0].output);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.starts_with("cell ")) << line;
  }
  const auto told = said(ranks[0]);
  EXPECT_GE(std::stoi(told.at("cells")), GetParam() == 2 ? 80 : 15);
  EXPECT_EQ(told.at("equal"), told.at("cells"));
  std::printf("%s", ranks[0].output.c_str());
}

// With four, two ranks shard a copy.
INSTANTIATE_TEST_SUITE_P(Ranks, CombinationsTest, ::testing::Values(2, 4));

}  // namespace
}  // namespace muster
