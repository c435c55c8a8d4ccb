// The save protocol among real ranks: killed at every stage, out of disk space, concurrent with
// training.
#include <gtest/gtest.h>

#include "base/files.h"
#include "checkpoint/checkpoint_directory.h"
#include "muster/checkpoint/checkpoint_options.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<ChildResult> run(int world_size, const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> argv = {TestBuild("bin/tests/checkpoint_ranks")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_ranks({.argv = argv, .world_size = world_size, .environment = environment});
}

class Saves : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Are, Saves, ::testing::Values("sync", "async"),
                         [](const auto& info) { return info.param; });

// Every run loads what the previous, killed one left, saves once, and is killed in its second save.
TEST_P(Saves, SurviveAKillOfAnyRankAtEveryStage) {
  const TemporaryDirectory directory;
  std::vector<std::string> kills = {"0 prepared",  "1 prepared", "0 shard",    "1 shard",
                                    "0 parts",     "1 parts",    "0 manifest", "0 published",
                                    "1 published", "0 retained"};
  if (GetParam() == "async") kills.insert(kills.end(), {"0 snapshot", "1 snapshot"});
  int64_t expected = 0;
  for (const std::string& kill : kills) {
    const auto ranks = run(2, {"survive", GetParam(), directory.path()}, {{"KILL", kill}});
    const int victim = kill[0] - '0';
    ASSERT_EQ(ranks[victim].exit_code, 128 + 9) << kill << "\n" << ranks[victim].output;
    for (const ChildResult& rank : ranks) {
      auto values = said(rank);
      EXPECT_EQ(values["resumed"], std::to_string(expected)) << kill << "\n" << rank.output;
      EXPECT_EQ(values["intact"], expected > 0 ? "yes" : "") << kill;
    }
    const bool published = kill.ends_with("published") || kill.ends_with("retained");
    expected += published ? 2 : 1;
    // Nothing half-written has a final name.
    EXPECT_EQ(latest_checkpoint(directory.path())->step, expected) << kill;
    for (const int64_t step : list_steps(directory.path())) {
      EXPECT_EQ(read_checkpoint(directory / step_name(step), true).step, step) << kill;
    }
  }
}

TEST_P(Saves, ThatOneRankCannotWriteFailOnAllAndLeaveTheOthersAlone) {
  const TemporaryDirectory directory;
  for (const ChildResult& rank : run(2, {"without_space", GetParam(), directory.path()})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    const std::string error = said(rank)["error"];
    EXPECT_NE(error.find("rank 1: cannot write"), std::string::npos) << rank.output;
    EXPECT_NE(error.find("File too large"), std::string::npos) << error;
  }
  EXPECT_EQ(list_steps(directory.path()), (std::vector<int64_t>{1, 3}));
  EXPECT_FALSE(path_exists(directory / "step-2.tmp"));
  EXPECT_EQ(list_checkpoints(directory.path()).size(), 2u);
}

TEST(AsyncSaves, RunConcurrentlyWithTrainingsCollectives) {
  const TemporaryDirectory directory;
  for (const ChildResult& rank : run(3, {"overlap", "async", directory.path()})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    auto values = said(rank);
    EXPECT_EQ(values["resumed"], "20");
    EXPECT_EQ(values["intact"], "yes");
    EXPECT_FALSE(values.contains("mixed")) << rank.output;
  }
  EXPECT_EQ(list_steps(directory.path()), (std::vector<int64_t>{19, 20}));
  // With a different number of ranks: everything except the ranks' own tensors.
  const auto alone = run(1, {"load", "async", directory.path()});
  auto values = said(alone[0]);
  EXPECT_EQ(values["resumed"], "20") << alone[0].output;
  EXPECT_EQ(values["intact"], "yes");
  EXPECT_EQ(values["own"], "none");
  EXPECT_NE(alone[0].output.find("was saved by 3 ranks, now there are 1"), std::string::npos);
}

}  // namespace
}  // namespace muster
