// Ranks on a device from a plug-in: they train as on the CPU, everything goes through its table,
// and unsupported dtypes are rejected before training.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using Environment = std::map<std::string, std::string>;

// Ranks that find the plug-ins and write their logs into `logs`.
std::vector<ChildResult> run(int world_size, std::vector<std::string> arguments,
                             Environment environment = {}, const std::string& logs = "") {
  arguments.insert(arguments.begin(), TestBuild("bin/tests/device_ranks"));
  environment["MUSTER_PLUGIN_PATH"] = TestBuild("tests/trainer/device/plugins");
  RankPlan plan{.argv = arguments, .world_size = world_size, .environment = environment};
  if (!logs.empty()) {
    plan.environment_of = [logs](int rank) {
      return Environment{{"MUSTER_FAKE_LOG", logs + "/" + std::to_string(rank)}};
    };
  }
  return run_ranks(plan);
}

// What one rank printed; all must succeed.
std::map<std::string, std::string> outcome(int world_size,
                                           const std::vector<std::string>& arguments,
                                           const Environment& environment = {}) {
  const auto results = run(world_size, arguments, environment);
  for (const ChildResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
  return said(results.back());
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

int64_t count(const std::vector<std::string>& lines, const std::string& start) {
  return std::count_if(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.starts_with(start); });
}

TEST(FakeDevice, TrainsTwoRanksBitForBitAsTheCpu) {
  const TemporaryDirectory logs;
  const auto plain = run(2, {"train", "cpu"});
  const auto fake = run(2, {"train", "fake"}, {}, logs.path());
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(fake[rank].exit_code, 0) << fake[rank].output;
    auto own = said(fake[rank]);
    EXPECT_EQ(own["place"], "cpu");
    EXPECT_NE(own["weights"], "");
    EXPECT_EQ(own["weights"], said(plain[rank])["weights"]);
    EXPECT_EQ(own["random_numbers_return"], "yes");

    const std::vector<std::string> log = lines_of(logs / std::to_string(rank));
    ASSERT_GT(log.size(), 3u);
    EXPECT_EQ(log[0], "init");
    EXPECT_EQ(log[1], "set_current " + std::to_string(rank));
    EXPECT_EQ(log[2], "make_backend rank " + std::to_string(rank) + " of 2 device " +
                          std::to_string(rank) + " timeout 1800000 network 127.0.0.1");
    EXPECT_EQ(log.back(), "finalize");
    // One bucket of 16·40 + 40 + 2·40 + 40·4 + 4 gradients in each of ten steps.
    EXPECT_EQ(count(log, "all_reduce Float 924"), 10);
    EXPECT_GE(count(log, "broadcast Float"), 1);
    EXPECT_EQ(count(log, "seed " + std::to_string(rank) + " 5"), 1);
    EXPECT_EQ(count(log, "seed " + std::to_string(rank) + " " + std::to_string(6 + rank)), 1);
    EXPECT_GE(count(log, "random_state " + std::to_string(rank)), 1);
    EXPECT_EQ(count(log, "set_random_state " + std::to_string(rank)), 1);
    EXPECT_EQ(count(log, "empty_cache"), 1);
  }
}

TEST(FakeDevice, TrainsADividedModelBitForBitAsTheCpu) {
  const TemporaryDirectory logs;
  const auto plain = run(2, {"train", "cpu", "zero3"});
  const auto fake = run(2, {"train", "fake", "zero3"}, {}, logs.path());
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(fake[rank].exit_code, 0) << fake[rank].output;
    EXPECT_NE(said(fake[rank])["weights"], "");
    EXPECT_EQ(said(fake[rank])["weights"], said(plain[rank])["weights"]);
    const std::vector<std::string> log = lines_of(logs / std::to_string(rank));
    EXPECT_GE(count(log, "all_gather Float"), 10);
    EXPECT_GE(count(log, "reduce_scatter Float"), 10);
  }
}

TEST(FakeDevice, IsNamedByTheVariableTooAndAnswersThroughItsTable) {
  const TemporaryDirectory logs;
  auto results = run(1, {"drive"}, {{"MUSTER_DEVICE", "fake"}}, logs.path());
  auto said_by = said(results[0]);
  EXPECT_EQ(said_by["name"], "fake") << results[0].output;
  EXPECT_EQ(said_by["memory"], "1 6");
  EXPECT_EQ(said_by["same"], "yes");
  EXPECT_EQ(lines_of(logs / "0"),
            (std::vector<std::string>{"init", "set_current 0", "memory 0", "reset_peak_memory 0",
                                      "synchronize 0", "finalize"}));
}

TEST(Cpu, AnswersThroughItsTable) {
  auto said_by = outcome(1, {"drive"}, {{"MUSTER_DEVICE", "cpu"}});
  EXPECT_EQ(said_by["name"], "cpu");
  EXPECT_EQ(said_by["memory"].find("-1 "), 0u);
}

TEST(ARankOnAPlugInThatLeavesByAnException, FreesTheOthers) {
  const TemporaryDirectory logs;
  const auto ranks = run(2, {"train", "fake", "leave"}, {}, logs.path());
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].output;
  EXPECT_NE(ranks[0].output.find("rank 0 has left"), std::string::npos) << ranks[0].output;
  EXPECT_EQ(ranks[1].exit_code, 1) << ranks[1].output;
  for (const char* rank : {"0", "1"}) {
    const std::vector<std::string> log = lines_of(logs / rank);
    EXPECT_EQ(count(log, "abort"), 1) << rank;
    EXPECT_EQ(log.back(), "finalize") << rank;
  }
}

TEST(UnsupportedTypes, AreRefusedWhenTheModelIsPrepared) {
  const Environment old = {{"MUSTER_DEVICE", "fake"}, {"MUSTER_FAKE_SOC", "Ascend910A"}};
  const std::string start = "device 'fake' (Atlas training (910A)): its ";
  EXPECT_EQ(
      outcome(2, {"refuse", "parameter"}, old)["error"],
      start +
          "broadcast does not support bfloat16, which the parameter 'first.weight' needs: use " +
          "float16, float32 or float64");
  EXPECT_EQ(
      outcome(2, {"refuse", "buffer"}, old)["error"],
      start +
          "broadcast does not support bfloat16, which the buffer 'norm.running_mean' needs: use " +
          "float16, float32 or float64");
  EXPECT_EQ(outcome(2, {"refuse", "compression"}, old)["error"],
            start +
                "all_reduce does not support bfloat16, which the gradient of 'first.weight' with " +
                "DataParallelOptions::gradient_compression needs: use float16 or float32");
  EXPECT_EQ(
      outcome(2, {"refuse", "zero3"}, old)["error"],
      start +
          "all_gather does not support bfloat16, which the parameter 'first.weight' in the type " +
          "of ShardingOptions::param_dtype or the mixed precision needs: use float16, " +
          "float32 or float64");
  EXPECT_EQ(outcome(2, {"refuse", "zero2"}, old)["error"],
            start + "reduce_scatter does not support bfloat16, which the average of gradients " +
                "(ShardingOptions::reduce_dtype) needs: use float16 or float32");
  // Another series supports it, and a single rank, which has no collectives, is not checked.
  const Environment newer = {{"MUSTER_DEVICE", "fake"}, {"MUSTER_FAKE_SOC", "Ascend910B2"}};
  EXPECT_EQ(outcome(2, {"refuse", "parameter"}, newer)["error"], "none");
  EXPECT_EQ(outcome(1, {"refuse", "parameter"}, old)["error"], "none");
}

TEST(Rules, AreWhatTheBackendItselfTakes) {
  for (const std::string device : {"cpu", "fake"}) {
    auto said_by = outcome(2, {"rules"}, {{"MUSTER_DEVICE", device}});
    for (const char* collective : {"all_reduce", "all_gather", "broadcast"}) {
      EXPECT_EQ(said_by[collective], "agrees") << device << " " << collective;
    }
    if (device == "fake") continue;
    EXPECT_EQ(said_by["reduce_scatter"], "agrees");
    EXPECT_EQ(said_by["all_to_all"], "agrees");
  }
}

TEST(Choice, ReportsWhatIsWrongWithIt) {
  EXPECT_EQ(outcome(1, {"open", "absent"})["error"].find(
                "device 'absent': the plug-in libmuster_trainer_absent.so was not found: "),
            0u);
  EXPECT_NE(outcome(1, {"open", "fake"}, {{"MUSTER_FAKE_INIT_FAULT", "no driver"}})["error"].find(
                "init failed: no driver"),
            std::string::npos);
  EXPECT_EQ(outcome(1, {"open", "fake", "cpu"})["error"],
            "AcceleratorOptions: cpu is true and device is 'fake': set only one of them");
  EXPECT_EQ(outcome(1, {"open", "cpu", "cpu"})["error"], "none");
  // The fifth rank of a host whose plug-in reports four devices.
  const Environment fifth = {
      {"RANK", "4"}, {"WORLD_SIZE", "5"}, {"LOCAL_RANK", "4"}, {"LOCAL_WORLD_SIZE", "5"}};
  EXPECT_EQ(outcome(1, {"open", "fake"}, fifth)["error"].find(
                "LOCAL_RANK=4 has no device: 4 of 'fake' are visible; start fewer ranks"),
            0u);
}

}  // namespace
}  // namespace muster
