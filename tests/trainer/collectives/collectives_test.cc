// Real ranks on loopback: every collective on edge cases, errors for ranks that disagree, and the
// same results as Accelerate.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using Environment = std::map<std::string, std::string>;

std::vector<ChildResult> run(int world_size, const std::string& scenario,
                             const Environment& environment = {}) {
  return run_ranks({.argv = {TestBuild("bin/tests/collectives_ranks"), scenario},
                    .world_size = world_size,
                    .environment = environment});
}

class Worlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, Worlds, ::testing::Values(1, 2, 3));

TEST_P(Worlds, EveryCollectiveHoldsOnEmptyRaggedUndefinedAndScalarTensors) {
  for (const ChildResult& rank : run(GetParam(), "all")) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
  }
}

TEST(Collectives, HoldInDebugModeToo) {
  for (const ChildResult& rank : run(2, "all", {{"ACCELERATE_DEBUG_MODE", "1"}})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
  }
}

// If the ranks share no memory, everything goes through sockets.
TEST(Collectives, HoldOverSeveralMachines) {
  const RankPlan plan{
      .argv = {TestBuild("bin/tests/collectives_ranks"), "all"}, .world_size = 3, .nodes = 2};
  for (const ChildResult& rank : run_ranks(plan)) EXPECT_EQ(rank.exit_code, 0) << rank.output;
}

// name -> the error that a rank got.
std::map<std::string, std::string> errors_of(const ChildResult& rank) {
  std::map<std::string, std::string> errors;
  std::istringstream lines(rank.output);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    const size_t bar = line.find('|');
    if (bar != std::string::npos) {
      name = line.substr(0, bar);
      errors[name] = line.substr(bar + 1);
    } else {
      errors[name] += "\n" + line;
    }
  }
  return errors;
}

void expect_on_all_ranks(const std::vector<ChildResult>& ranks, const std::string& name,
                         const std::vector<std::string>& parts) {
  for (const ChildResult& rank : ranks) {
    const std::string error = errors_of(rank)[name];
    EXPECT_TRUE(error.starts_with("CommunicationError on rank ")) << name << ": " << error;
    for (const std::string& part : parts) {
      EXPECT_NE(error.find(part), std::string::npos)
          << name << " without " << part << ": " << error;
    }
  }
}

TEST(Collectives, NameTheRankThatDisagreesOnAllRanksAndContinue) {
  const auto ranks = run(3, "disagreements", {{"ACCELERATE_DEBUG_MODE", "1"}});
  for (const ChildResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.output;
  const std::string who = "rank 2 does not call what the others call";
  expect_on_all_ranks(ranks, "shape",
                      {who, "\n  ranks 0, 1: gather(1 tensor: float32 [3, 2])",
                       "\n  rank 2: gather(1 tensor: float32 [4, 2])", "pad_across_processes"});
  expect_on_all_ranks(ranks, "dtype", {who, "reduce(sum; 1 tensor: int32 [2])", "int64 [2]"});
  expect_on_all_ranks(ranks, "count", {who, "broadcast(from 0; 2 tensors: "});
  expect_on_all_ranks(ranks, "call", {who, "ranks 0, 1: gather(", "rank 2: reduce(mean; "});
  expect_on_all_ranks(ranks, "option", {who, "reduce(sum; ", "reduce(max; "});
  expect_on_all_ranks(ranks, "kind", {who, "gather_object()", "wait_for_everyone()"});
  expect_on_all_ranks(ranks, "trailing", {who, "float32 [*, 2]", "float32 [*, 3]"});
  expect_on_all_ranks(ranks, "packed", {who, "reduce_packed(sum of 1 numbers)"});
  expect_on_all_ranks(ranks, "undefined", {who, "gather(1 tensor: undefined)"});
  expect_on_all_ranks(ranks, "refused", {who, "which it refuses: reduce: the mean of int64"});
}

TEST(Collectives, NameTheRankThatDisagreesWithoutDebugModeWhereValuesMove) {
  const auto ranks = run(2, "value_disagreements");
  for (const ChildResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.output;
  for (const char* name : {"shape", "dtype", "count", "call", "option", "kind", "trailing"}) {
    expect_on_all_ranks(ranks, name, {"rank 1 does not call what the others call"});
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Collectives, AnswerAsAccelerateDoes) {
  const Environment environment = {{"GLOO_SOCKET_IFNAME", "lo"}, {"PYTHONWARNINGS", "ignore"}};
  const auto own = run_ranks({.argv = {TestBuild("bin/tests/operations_ranks")},
                              .world_size = 2,
                              .environment = environment});
  const auto python =
      run_ranks({.argv = {TestPython(), TestSource("tests/trainer/collectives/operations.py")},
                 .world_size = 2,
                 .environment = environment});
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(own[rank].exit_code, 0) << own[rank].output;
    ASSERT_EQ(python[rank].exit_code, 0) << python[rank].output;
    const auto ours = lines_of(own[rank].output);
    const auto theirs = lines_of(python[rank].output);
    ASSERT_EQ(ours.size(), theirs.size()) << own[rank].output << python[rank].output;
    EXPECT_GT(ours.size(), 120U);
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(ours[i], theirs[i]) << "rank " << rank;
  }
}

}  // namespace
}  // namespace muster
