// Real ranks on loopback: gradients, resume, the checkpoint protocol under kills, launchers.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/files.h"
#include "checkpoint/checkpoint_directory.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<ChildResult> run(int world_size, std::vector<std::string> arguments,
                             const std::map<std::string, std::string>& environment = {}) {
  arguments.insert(arguments.begin(), TestBuild("bin/tests/trainer_ranks"));
  return run_ranks({.argv = arguments, .world_size = world_size, .environment = environment});
}

// As run, and all ranks must succeed.
std::vector<std::map<std::string, std::string>> outcome(int world_size,
                                                        const std::vector<std::string>& arguments) {
  std::vector<std::map<std::string, std::string>> values;
  for (const ChildResult& result : run(world_size, arguments)) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    values.push_back(said(result));
  }
  return values;
}

class Worlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, Worlds, ::testing::Values(2, 3));

TEST_P(Worlds, GradientsAreTheMeanOfTheRanksOwn) {
  for (auto& rank : outcome(GetParam(), {"gradients"})) {
    EXPECT_LT(std::stod(rank["difference"]), 1e-5);
    EXPECT_EQ(rank["local"], "yes");
    EXPECT_LT(std::stod(rank["accumulated"]), 1e-5);
  }
}

TEST_P(Worlds, ParametersStayIdenticalOnAllRanks) {
  auto ranks = outcome(GetParam(), {"keeps_ranks_identical"});
  for (auto& rank : ranks) {
    EXPECT_EQ(rank["start"], ranks[0]["start"]);
    EXPECT_EQ(rank["end"], ranks[0]["end"]);
    EXPECT_NE(rank["start"], rank["end"]);
    EXPECT_EQ(rank["name"], "first.weight");
    EXPECT_EQ(rank["several_buckets"], "yes");
  }
}

TEST_P(Worlds, AResumedRunEqualsTheUninterruptedOneBitForBit) {
  const TemporaryDirectory directory;
  const std::string size = std::to_string(GetParam());
  auto whole = outcome(GetParam(), {"train", directory / "whole", "7", "100"});
  // Interrupted at different points: before the buckets are rebuilt, and in the middle.
  outcome(GetParam(), {"train", directory / "parts", "1", "1"});
  outcome(GetParam(), {"train", directory / "parts", "4", "4"});
  auto resumed = outcome(GetParam(), {"train", directory / "parts", "7", "100"});
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(resumed[rank]["resumed"], "4");
    EXPECT_EQ(resumed[rank]["end"], whole[rank]["end"]);
    EXPECT_EQ(resumed[rank]["random"], whole[rank]["random"]);
    EXPECT_EQ(resumed[rank]["mean"], whole[rank]["mean"]);
  }
}

// With two ranks through shared memory, with three through Gloo, where torch's Reducer does the wait.
TEST_P(Worlds, StepTimesTellTheWaitForALateRankFromBackward) {
  auto ranks = outcome(GetParam(), {"waits"});
  EXPECT_GT(std::stod(ranks[0]["waited_ms"]), 50);
  EXPECT_LT(std::stod(ranks[0]["backward_ms"]), 50);
}

TEST(Checkpoint, ResumesWithAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  auto two = outcome(2, {"train", directory.path(), "3", "3"});
  for (const int world_size : {3, 1}) {
    for (auto& rank : outcome(world_size, {"train", directory.path(), "3", "100"})) {
      EXPECT_EQ(rank["resumed"], "3");
      EXPECT_EQ(rank["loaded"], two[0]["end"]);
      EXPECT_EQ(rank["consumed"], "36");
    }
  }
}

struct Kill {
  std::string rank_and_stage;
  int64_t resumes_from;
};

TEST(Checkpoint, SurvivesAKillAtEveryStageOfASave) {
  for (const Kill& kill : std::vector<Kill>{{"0 prepared", 1},
                                            {"0 shard", 1},
                                            {"1 shard", 1},
                                            {"0 parts", 1},
                                            {"0 manifest", 1},
                                            {"0 published", 2}}) {
    const TemporaryDirectory directory;
    auto killed =
        run(2, {"train", directory.path(), "2", "1"}, {{"KILL", kill.rank_and_stage + " 2"}});
    const int victim = kill.rank_and_stage[0] - '0';
    EXPECT_EQ(killed[victim].exit_code, 128 + 9) << killed[victim].output;
    for (const int64_t step : list_steps(directory.path())) {
      EXPECT_EQ(read_checkpoint(directory / step_name(step), true).step, step);
    }
    // No step to train: the run only loads.
    auto loaded = outcome(2, {"train", directory.path(), "1", "1"});
    EXPECT_EQ(loaded[1]["resumed"], std::to_string(kill.resumes_from)) << kill.rank_and_stage;
  }
}

TEST(Checkpoint, IsSkippedWhenDamagedAndCleanedUpWhenUnfinished) {
  const TemporaryDirectory directory;
  outcome(2, {"train", directory.path(), "2", "1"});
  const std::string shard = directory / "step-2/" + shard_name(0, 2);
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000);
  file.put('\x55');
  file.close();
  std::filesystem::create_directory(directory / "step-9.tmp");
  auto results = run(2, {"train", directory.path(), "3", "3"});
  EXPECT_EQ(said(results[1])["resumed"], "1");
  EXPECT_NE(results[0].output.find("skipping a checkpoint"), std::string::npos);
  EXPECT_FALSE(path_exists(directory / "step-9.tmp"));
  EXPECT_TRUE(path_exists(directory / "step-3"));
}

TEST(Checkpoint, WhenAllAreDamagedNoRunStartsOverUnlessAsked) {
  const TemporaryDirectory directory;
  outcome(2, {"train", directory / "a", "1", "1"});
  std::filesystem::resize_file(directory / "a/step-1/" + shard_name(0, 2), 100);
  for (const ChildResult& result : run(2, {"train", directory / "a", "2", "1"})) {
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_NE(result.output.find("none of the 1 checkpoints in " + directory / "a" + " is intact"),
              std::string::npos)
        << result.output;
    EXPECT_NE(result.output.find("100 bytes, but the manifest lists"), std::string::npos);
    EXPECT_NE(result.output.find("to start over on purpose, move"), std::string::npos);
  }
  // Nothing was saved, so the directory is unchanged. The fix that the error suggests works.
  EXPECT_FALSE(path_exists(directory / "a/step-2"));
  std::filesystem::rename(directory / "a", directory / "old");
  EXPECT_EQ(outcome(2, {"train", directory / "a", "1", "1"})[1]["resumed"], "0");
}

TEST(Loss, ThatIsNotFiniteIsNamedWithStepAndRankOnAllRanks) {
  for (auto& rank : outcome(2, {"watch_loss"})) {
    EXPECT_EQ(rank["good"], "2");
    EXPECT_EQ(rank["error"],
              "the loss of step 3 is not finite: nan on rank 0, inf on rank 1 (of 2 ranks)");
  }
}

TEST(Optimizer, OfAModelThatWasNotPreparedIsRefusedByName) {
  for (auto& rank : outcome(2, {"unprepared_model"})) {
    EXPECT_NE(rank["no_model"].find("parameter 0 of group 0 (float32 [600, 16]) belongs to no "
                                    "prepared model"),
              std::string::npos)
        << rank["no_model"];
    EXPECT_NE(rank["beside"].find("(float32 [3]) belongs to no prepared model"), std::string::npos)
        << rank["beside"];
    EXPECT_EQ(rank["two_models"], "");
    EXPECT_EQ(rank["end"], "reached");
  }
}

TEST(Checkpoint, ThatMusterNamesMustBeWhole) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "step-5");
  for (const ChildResult& result : run(2, {"train", directory.path(), "1", "1"},
                                       {{"MUSTER_RESUME_FROM", directory / "step-5"}})) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.output.find("step-5 has no manifest.json"), std::string::npos);
  }
}

TEST(Checkpoint, FailsOnAllRanksWhenOneCannotWrite) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "file") << "not a directory";
  for (const ChildResult& result : run(2, {"save", directory / "file"})) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_NE(said(result)["error"].find("cannot create the directory"), std::string::npos)
        << result.output;
  }
}

TEST(Checkpoint, ThatOneRankCannotWriteLeavesTheOthersAndTrainingAlone) {
  const TemporaryDirectory directory;
  for (auto& rank : outcome(2, {"save_without_space", directory.path()})) {
    EXPECT_NE(rank["error"].find("rank 1: cannot write"), std::string::npos) << rank["error"];
    EXPECT_NE(rank["error"].find("File too large"), std::string::npos) << rank["error"];
  }
  EXPECT_EQ(list_steps(directory.path()), (std::vector<int64_t>{1, 3}));
  EXPECT_FALSE(path_exists(directory / "step-2.tmp"));
  EXPECT_EQ(read_checkpoint(directory / "step-1", true).step, 1);
}

TEST(Checkpoint, IsOnePartPerNodeWhereNodesHaveTheirOwnDirectories) {
  const TemporaryDirectory directory;
  const auto on_nodes = [&](const std::string& variable, const std::vector<std::string>& paths,
                            const std::vector<std::string>& arguments) {
    RankPlan plan{.argv = {TestBuild("bin/tests/trainer_ranks")}, .world_size = 3, .nodes = 2};
    plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
    plan.environment_of = [=](int rank) {
      return std::map<std::string, std::string>{{variable, paths[rank < 2 ? 0 : 1]}};
    };
    return run_ranks(plan);
  };
  const std::string a = directory / "a", b = directory / "b", both = directory / "step-2";
  auto saved = on_nodes("MUSTER_CHECKPOINT_DIR", {a, b}, {"train", "", "2", "2"});
  for (const ChildResult& result : saved) EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(path_exists(a + "/step-2/part-00000-of-00002.json"));
  EXPECT_TRUE(path_exists(b + "/step-2/part-00001-of-00002.json"));
  EXPECT_TRUE(path_exists(a + "/step-2/manifest.json"));
  EXPECT_FALSE(path_exists(b + "/step-2/manifest.json"));
  EXPECT_TRUE(path_exists(b + "/step-2/" + shard_name(2, 3)));
  // The coordinator sends every node the files of all parts.
  for (const std::string& part : {a, b}) {
    std::filesystem::copy(part + "/step-2", both,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }
  auto resumed = on_nodes("MUSTER_RESUME_FROM", {both, both}, {"train", "", "2", "100"});
  ASSERT_EQ(resumed[2].exit_code, 0) << resumed[2].output;
  EXPECT_EQ(said(resumed[2])["loaded"], said(saved[0])["end"]);
  EXPECT_EQ(said(resumed[2])["random"], said(saved[2])["random"]);
}

TEST(Checkpoint, IsWrittenOnceWhereNodesShareTheDirectory) {
  const TemporaryDirectory directory;
  const auto results = run_ranks(
      {.argv = {TestBuild("bin/tests/trainer_ranks"), "train", directory.path(), "2", "1"},
       .world_size = 2,
       .nodes = 2});
  for (const ChildResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(read_checkpoint(directory / "step-2", true).shards.size(), 2u);
  EXPECT_TRUE(path_exists(directory / "step-2/part-00001-of-00002.json"));
  EXPECT_TRUE(path_exists(directory / "step-2/manifest.json"));
}

TEST(Checkpoint, IsReadByPythonsSafetensors) {
  const TemporaryDirectory directory;
  outcome(2, {"train", directory.path(), "1", "1"});
  ChildProcess python({TestPython(), "-c",
                       "import sys\n"
                       "from safetensors import safe_open\n"
                       "with safe_open(sys.argv[1], 'np') as shard:\n"
                       "    print(shard.get_tensor('model/first.weight').shape,\n"
                       "          shard.get_tensor('optim/exp_avg/last.bias').dtype,\n"
                       "          shard.get_tensor('rank/rng_cpu').size)\n",
                       directory / "step-1/" + shard_name(0, 2)},
                      {});
  const ChildResult result =
      python.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  if (result.output.find("ModuleNotFoundError") != std::string::npos) {
    GTEST_SKIP() << "no Python with safetensors and numpy";
  }
  EXPECT_EQ(result.output, "(600, 16) float32 5056\n");
}

TEST(Ranks, ThatBuiltDifferentModelsGetTheFirstParameterThatDiffers) {
  for (auto& rank : outcome(2, {"different_models"})) {
    EXPECT_NE(rank["error"].find("parameter 0 is 'first.weight' Float [700, 16] on rank 1 and "
                                 "'first.weight' Float [600, 16] on rank 0"),
              std::string::npos)
        << rank["error"];
  }
}

TEST(Ranks, GetAnErrorForAForwardOfTheBareModule) {
  auto ranks = outcome(2, {"bypass"});
  for (auto& rank : ranks) {
    EXPECT_NE(rank["error"].find("call what prepare() returned, model(x)"), std::string::npos)
        << rank["error"];
  }
  EXPECT_EQ(ranks[0]["end"], ranks[1]["end"]);
}

TEST(Ranks, GatherAndReduceScalarsAndTensors) {
  for (auto& rank : outcome(3, {"collectives"})) {
    EXPECT_EQ(rank["scalar"], "0,1,2");
    EXPECT_EQ(rank["rows"], "0,0,0,0,1,1,1,1,2,2,2,2");
    EXPECT_EQ(rank["empty"], "3");
    EXPECT_EQ(rank["doubles"], "3");
    EXPECT_EQ(rank["sum"], "6,6");
    EXPECT_EQ(rank["mean"], "1.000000");
    EXPECT_EQ(rank["max"], "2.000000");
    EXPECT_EQ(rank["min"], "0.000000");
    EXPECT_EQ(rank["input_kept"], "yes");
    EXPECT_EQ(rank["integer_mean"], "refused");
  }
  // In a single process, the same calls return the same shapes.
  ChildProcess alone({TestBuild("bin/tests/trainer_ranks"), "collectives"}, {});
  auto values = said(alone.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  EXPECT_EQ(values["scalar"], "0");
  EXPECT_EQ(values["rows"], "0,0,0,0");
  EXPECT_EQ(values["mean"], "0.000000");
}

TEST(Ranks, AllStopWhenOneIsSignaled) {
  auto ranks = outcome(2, {"stop"});
  for (auto& rank : ranks) {
    EXPECT_EQ(rank["before"], "no");
    EXPECT_EQ(rank["after"], "yes");
  }
  EXPECT_EQ(ranks[0]["told"], "no");
  EXPECT_EQ(ranks[1]["told"], "yes");
}

TEST(Ranks, ReportHowManyJoinedWhenOneIsMissing) {
  // Only one of two ranks is started.
  const ChildResult result = run(1, {"meet"}, {{"WORLD_SIZE", "2"}})[0];
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("rank 0 of 2 could not join the others"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("1/2"), std::string::npos) << result.output;
}

TEST(Ranks, MeetAtTheStoreOfTorchrunsAgent) {
  ChildProcess torchrun(
      {TestPython(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
       "--no-python", TestBuild("bin/tests/trainer_ranks"), "agent_store"},
      {{"OMP_NUM_THREADS", "1"}});
  const auto result = torchrun.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  if (result.output.find("No module named") != std::string::npos) GTEST_SKIP() << "no torchrun";
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(said(result)["agent_store"], "yes");
  EXPECT_EQ(said(result)["sum"], "2");
}

TEST(Accelerators, FollowOneAnotherInAProcess) {
  // The sum over rounds 0 to 29 of round + rank, on two ranks.
  for (auto& rank : outcome(2, {"rounds", "30"})) EXPECT_EQ(rank["sum"], "900");
}

TEST(Accelerators, AreOneAtATimeWhereThereAreSeveralRanks) {
  for (auto& rank : outcome(2, {"two_at_once"})) {
    EXPECT_NE(rank["second"].find("this process has an Accelerator already"), std::string::npos)
        << rank["second"];
    EXPECT_EQ(rank["sum"], "2");
  }
  ChildProcess alone({TestBuild("bin/tests/trainer_ranks"), "two_at_once"}, {});
  auto values = said(alone.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  EXPECT_EQ(values["second"], "made");
}

// The curve of a run: its epoch lines without the speed, which differs.
std::string curve_of(const std::string& output) {
  std::string curve;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("epoch")) curve += line.substr(0, line.find(" %")) + "\n";
  }
  return curve;
}

TEST(Digits, ReachTheGoalOnTwoRanks) {
  const auto ranks = run_ranks({.argv = {TestBuild("bin/examples/digits")}, .world_size = 2});
  const std::string& output = ranks[0].output;
  ASSERT_EQ(ranks[0].exit_code, 0) << output;
  const size_t final = output.find("held-out digits: ");
  ASSERT_NE(final, std::string::npos) << output;
  EXPECT_GE(std::stod(output.substr(final + 17)), 97.0);
  EXPECT_EQ(ranks[1].output, "");
}

TEST(Digits, ContinueTheirCurveAfterAStop) {
  for (const std::vector<std::string>& program :
       {std::vector<std::string>{TestBuild("bin/examples/digits")},
        {TestPython(), TestSource("examples/digits_python/train.py")}}) {
    const auto digits = [&](const TemporaryDirectory& directory, const std::string& resume_from) {
      RankPlan plan{.argv = program, .world_size = 2};
      plan.argv.insert(plan.argv.end(), {"--epochs", "3"});
      plan.environment = {{"MUSTER_CHECKPOINT_DIR", directory / "c"},
                          {"MUSTER_TENSORBOARD_DIR", directory / "tb"}};
      if (!resume_from.empty()) plan.environment["MUSTER_RESUME_FROM"] = resume_from;
      return run_ranks(plan)[0];
    };
    const TemporaryDirectory first, second;
    const ChildResult whole = digits(first, "");
    ASSERT_EQ(whole.exit_code, 0) << whole.output;
    const auto steps = list_steps(first / "c");
    ASSERT_EQ(steps.size(), 3u);
    const ChildResult resumed = digits(second, first / ("c/" + step_name(steps[1])));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_EQ(curve_of(resumed.output),
              curve_of(whole.output).substr(curve_of(whole.output).rfind("epoch")));
  }
}

}  // namespace
}  // namespace muster
