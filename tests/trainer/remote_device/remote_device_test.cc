// The SDK on a device whose memory the CPU cannot read and whose work is asynchronous: two ranks
// give the numbers of the CPU, in programs that other tests run on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "parity/parity_files.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using Environment = std::map<std::string, std::string>;
using Said = std::map<std::string, std::string>;
using nlohmann::json;

// MUSTER_TEST_DEVICE: another device, whose plug-in lies in MUSTER_PLUGIN_PATH.
std::string tested_device() {
  const char* const name = std::getenv("MUSTER_TEST_DEVICE");
  return name == nullptr ? "remote" : name;
}

std::vector<ChildResult> run(const std::string& device, int world_size,
                             std::vector<std::string> arguments, Environment environment = {}) {
  arguments[0] = TestBuild("bin/tests/" + arguments[0]);
  environment["MUSTER_DEVICE"] = device;
  const char* const path = std::getenv("MUSTER_PLUGIN_PATH");
  environment["MUSTER_PLUGIN_PATH"] =
      (path == nullptr ? "" : std::string(path) + ":") + TestBuild("tests/trainer/device/plugins");
  environment["TORCH_CPP_LOG_LEVEL"] = "ERROR";
  return run_ranks({.argv = arguments, .world_size = world_size, .environment = environment});
}

// What each rank printed; all must succeed.
std::vector<Said> outcome(int world_size, const std::vector<std::string>& arguments,
                          const Environment& environment = {}) {
  std::vector<Said> outcomes;
  for (const ChildResult& rank : run(tested_device(), world_size, arguments, environment)) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    outcomes.push_back(said(rank));
  }
  return outcomes;
}

void expect_all_yes(const Said& lines, size_t count) {
  EXPECT_EQ(lines.size(), count);
  for (const auto& [name, value] : lines) EXPECT_EQ(value, "yes") << name;
}

// ---- The device ----

TEST(RemoteDevice, KillsAHostThatReadsItsMemory) {
  const ChildResult rank = run(tested_device(), 1, {"remote_ranks", "read_memory"})[0];
  EXPECT_EQ(rank.exit_code, 128 + SIGSEGV) << rank.output;
  EXPECT_EQ(said(rank), (Said{{"reads", "yes"}}));
}

TEST(RemoteDevice, CopiesToPinnedMemoryLater) {
  const Said lines =
      outcome(1, {"remote_ranks", "copy_late"}, {{"MUSTER_REMOTE_DELAY_US", "50000"}})[0];
  EXPECT_EQ(lines, (Said{{"at_once", "no"}, {"after_waiting", "yes"}, {"pageable", "yes"}}));
}

TEST(RemoteDevice, DoesNotOrderStreamsThatDoNotWait) {
  const Said lines = outcome(1, {"remote_ranks", "read_on_another_stream"},
                             {{"MUSTER_REMOTE_DELAY_US", "10000"}})[0];
  EXPECT_EQ(lines, (Said{{"unordered", "no"}, {"ordered", "yes"}}));
}

TEST(RemoteDevice, ReportsItsMemory) {
  Said lines = outcome(1, {"remote_ranks", "measure"})[0];
  EXPECT_EQ(lines["allocated"], std::to_string(1 << 20));
  lines.erase("allocated");
  expect_all_yes(lines, 4);
}

TEST(RemoteDevice, DoesTheCollectivesThatItsTableNames) {
  for (const char* series : {"large", "small"}) {
    for (const Said& lines :
         outcome(2, {"device_ranks", "rules"}, {{"MUSTER_REMOTE_SERIES", series}})) {
      for (const char* collective : {"all_reduce", "all_gather", "broadcast", "all_to_all"}) {
        EXPECT_EQ(lines.at(collective), "agrees") << series << " " << collective;
      }
    }
  }
}

// ---- What the SDK had assumed ----

TEST(Modules, MoveToADeviceThatSetDataRefuses) {
  expect_all_yes(outcome(1, {"remote_ranks", "move"})[0], 3);
}

TEST(Reductions, OfTypesThatTheDeviceCannotReduceAreExact) {
  for (Said& lines : outcome(2, {"remote_ranks", "reduce"}, {{"MUSTER_REMOTE_SERIES", "small"}})) {
    EXPECT_EQ(lines["metric"], "1.500000");
    lines.erase("metric");
    expect_all_yes(lines, 5);
  }
  for (const ChildResult& rank :
       run(tested_device(), 2, {"collectives_ranks", "all"}, {{"MUSTER_REMOTE_SERIES", "small"}})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
  }
}

TEST(PinnedMemory, IsUsedWhereTheDeviceHasIt) {
  const Said with = outcome(1, {"remote_ranks", "pin"}, {{"MUSTER_REMOTE_DELAY_US", "300"}})[0];
  EXPECT_EQ(
      with,
      (Said{{"pinned", "yes"}, {"sum", "2016"}, {"snapshot", "yes"}, {"snapshot_pinned", "yes"}}));
}

TEST(PinnedMemory, IsLeftOutWhereTheDeviceHasNone) {
  const Said without =
      outcome(1, {"remote_ranks", "pin"}, {{"MUSTER_REMOTE_WITHOUT_PINNED_MEMORY", "1"}})[0];
  EXPECT_EQ(
      without,
      (Said{{"pinned", "no"}, {"sum", "2016"}, {"snapshot", "yes"}, {"snapshot_pinned", "no"}}));
}

TEST(RandomNumbers, OfTheDeviceAreDrawnAgain) {
  expect_all_yes(outcome(1, {"remote_ranks", "draw"})[0], 3);
}

TEST(DeferredModules, GetTheirValuesOnTheDevice) {
  expect_all_yes(outcome(1, {"remote_ranks", "defer"})[0], 1);
}

// ---- The suites of the SDK ----

using Numbers = std::map<std::string, std::vector<double>>;

Numbers numbers_of(const std::string& device, const std::string& stage) {
  const auto ranks = run(device, 2, {"trainer_loop_ranks", stage, "0"});
  for (const ChildResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.output;
  Numbers numbers;
  std::istringstream lines(ranks[0].output);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::istringstream values(line.substr(colon + 2));
    for (double value = 0; values >> value;) numbers[line.substr(0, colon)].push_back(value);
  }
  return numbers;
}

// Modules, loops and optimizers as users write them. The cell of an LSTM is the only kernel that is
// not the CPU's.
TEST(EveryWay, OfTrainingAShardedModelGivesTheNumbersOfTheCpu) {
  const Numbers expected = numbers_of("cpu", "none"),
                numbers = numbers_of(tested_device(), "zero3");
  EXPECT_GE(expected.size(), 30u);
  EXPECT_EQ(numbers.size(), expected.size());
  for (const auto& [way, values] : expected) {
    ASSERT_TRUE(numbers.contains(way)) << way;
    const std::vector<double>& own = numbers.at(way);
    ASSERT_EQ(own.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_LE(std::abs(own[i] - values[i]), 2e-6 * std::abs(values[i])) << way;
    }
  }
}

// Stage, precision with its scaler, clipping, accumulation, optimizers and models.
void expect_as_without_sharding(int world_size, std::vector<std::string> cells, int count_min) {
  cells.insert(cells.begin(), "trainer_combinations_ranks");
  const auto ranks = run(tested_device(), world_size, cells);
  for (const ChildResult& rank : ranks) ASSERT_EQ(rank.exit_code, 0) << rank.output;
  std::istringstream lines(ranks[0].output);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.starts_with("cell ")) << line;
  }
  const Said told = said(ranks[0]);
  EXPECT_GE(std::stoi(told.at("cells")), count_min);
  EXPECT_EQ(told.at("equal"), told.at("cells"));
}

TEST(Combinations, GiveWhatTheyGiveWithoutSharding) {
  expect_as_without_sharding(2, {"pairs"}, 15);
}

TEST(Combinations, OfFourRanksTwoOfWhichShardACopyDoToo) {
  expect_as_without_sharding(4,
                             {"fp16,zero3,norm2,every-step,optimizer,model,overflow",
                              "fp32,zero2,norminf,accumulate3,optimizer,model,finite"},
                             2);
}

TEST(Ranks, StartFromTheWeightsOfTheFirst) {
  const auto ranks = outcome(2, {"trainer_ranks", "keeps_ranks_identical"});
  for (const Said& rank : ranks) {
    EXPECT_EQ(rank.at("start"), ranks[0].at("start"));
    EXPECT_EQ(rank.at("end"), ranks[0].at("end"));
    EXPECT_NE(rank.at("start"), rank.at("end"));
    EXPECT_EQ(rank.at("several_buckets"), "yes");
  }
}

TEST(Ranks, ThatLeaveByAnExceptionFreeTheOthers) {
  const auto ranks = run(tested_device(), 2, {"device_ranks", "train", tested_device(), "leave"});
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].output;
  EXPECT_EQ(ranks[1].exit_code, 1) << ranks[1].output;
}

TEST(Ranks, JoinWithUnevenInputsAndAverageLocalSteps) {
  for (const Said& lines : outcome(2, {"remote_ranks", "spread"})) expect_all_yes(lines, 3);
}

class Runs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    const auto inputs = run("cpu", 1, {"trainer_parity_ranks", "inputs", directory_->path()});
    ASSERT_EQ(inputs[0].exit_code, 0) << inputs[0].output;
  }
  static void TearDownTestSuite() { directory_.reset(); }

  // What each rank of a case wrote.
  static std::vector<json> train(const std::string& device, json one,
                                 const Environment& environment = {}) {
    static int runs = 0;
    one["name"] = "run" + std::to_string(++runs);
    const std::string cases = *directory_ / "cases.json";
    std::ofstream(cases) << json::array({one});
    const auto ranks = run(device, 2,
                           {"trainer_parity_ranks", cases, directory_->path(), directory_->path(),
                            one["name"].get<std::string>()},
                           environment);
    std::vector<json> written;
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ranks[rank].exit_code, 0) << one << "\n" << ranks[rank].output;
      if (ranks[rank].exit_code != 0) return {};
      written.push_back(read_json(*directory_ / (one["name"].get<std::string>() + ".muster." +
                                                 std::to_string(rank) + ".json")));
    }
    return written;
  }

  inline static std::unique_ptr<TemporaryDirectory> directory_;
};

// Workers that pin, clipping, a scaler that skips steps, bf16, buffers, an average, a schedule,
// unused parameters.
const char* const kCases[] = {
    R"({"model": "digits_plain", "batch": 6, "steps": 24, "samples": 120, "shuffle": true,
        "num_workers": 2, "clip_norm": 0.5, "ema": 0.9, "compat": false,
        "optimizer": {"name": "adamw", "lr": 1e-3}})",
    R"({"model": "norm", "batch": 5, "steps": 20, "samples": 200, "shuffle": true,
        "scaler": {"init_scale": 65536.0, "growth_interval": 5}, "overflow_at": [3, 11],
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
        "schedule": {"name": "step", "step_size": 10, "gamma": 0.5}})",
    R"({"model": "digits_plain", "batch": 5, "steps": 16, "samples": 150, "shuffle": true,
        "precision": "bf16", "accumulation": 2, "optimizer": {"name": "adamw", "lr": 1e-3}})",
    R"({"model": "norm_side", "batch": 5, "steps": 12, "samples": 200, "shuffle": true,
        "ddp": {"find_unused_parameters": true}, "optimizer": {"name": "sgd", "lr": 0.05}})"};

TEST_F(Runs, EqualTheCpusBitForBit) {
  for (const char* text : kCases) {
    const json one = json::parse(text);
    const auto remote = train(tested_device(), one, {{"MUSTER_REMOTE_DELAY_US", "100"}});
    EXPECT_FALSE(remote.empty());
    EXPECT_EQ(remote, train("cpu", one)) << text;
  }
}

// The runs draw masks on the device, and save while they train.
TEST_F(Runs, ThatResumeEqualTheUninterruptedBitForBit) {
  for (const char* stage : {"none", "zero3"}) {
    json one = json::parse(R"({"model": "digits", "batch": 6, "steps": 16, "samples": 120,
        "shuffle": true, "num_workers": 2, "clip_norm": 0.5, "asynchronous": true,
        "optimizer": {"name": "adamw", "lr": 1e-3}})");
    one["sharding"] = {{"stage", stage}, {"unit_numel_min", 0}};
    const auto whole = train(tested_device(), one);
    one["checkpoint_dir"] = *directory_ / stage;
    json saving = one;
    saving["save_at"] = {3, 7};
    saving["steps"] = 10;
    train(tested_device(), saving, {{"MUSTER_REMOTE_DELAY_US", "100"}});
    one["resume_from"] = *directory_ / stage + "/step-7";
    const auto resumed = train(tested_device(), one);
    ASSERT_EQ(whole.size(), 2u);
    ASSERT_EQ(resumed.size(), 2u);
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(resumed[rank].at("first"), 7);
      const auto& losses = whole[rank].at("loss");
      EXPECT_EQ(resumed[rank].at("loss"),
                json(std::vector<json>(losses.begin() + 7, losses.end())));
      for (const char* name : {"end", "buffers", "random"}) {
        EXPECT_EQ(resumed[rank].at(name), whole[rank].at(name)) << stage << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace muster
