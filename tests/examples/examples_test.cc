// Each example and its Python twin, as users start them, for a few steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "support/child_process.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::string example(const std::string& name) { return TestBuild("bin/examples/" + name); }
std::string source(const std::string& name) { return TestSource("examples/" + name); }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// During shutdown a Gloo thread may abort Python (pytorch/pytorch#179291); the work is done by
// then.
bool has_succeeded(const ChildResult& rank, const std::string& program) {
  const bool is_aborted = rank.output.ends_with("terminate called without an active exception\n");
  return rank.exit_code == 0 || (program == TestPython() && is_aborted);
}

// What the main process of several ranks printed; all of them must succeed.
std::string output_of(int world_size, std::vector<std::string> argv,
                      const std::vector<std::string>& more = {}) {
  argv.insert(argv.end(), more.begin(), more.end());
  const auto ranks = run_ranks({.argv = argv, .world_size = world_size});
  for (const ChildResult& rank : ranks) EXPECT_TRUE(has_succeeded(rank, argv[0])) << rank.output;
  return ranks[0].output;
}

// Like output_of, for one process without any launcher's variables.
std::string output_alone(const std::vector<std::string>& argv) {
  ChildProcess process(argv, {{"OMP_NUM_THREADS", "1"}});
  const auto result = process.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

// The numbers after `name` in a text, in order.
std::vector<double> numbers(const std::string& text, const std::string& name) {
  std::vector<double> found;
  const std::regex pattern(name + R"(\s+([0-9.]+))");
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.push_back(std::stod((*match)[1]));
  }
  return found;
}

void expect_close(const std::vector<double>& some, const std::vector<double>& others,
                  double difference) {
  ASSERT_EQ(some.size(), others.size());
  ASSERT_FALSE(some.empty());
  for (size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i], others[i], difference) << i;
}

std::string without_speed(const std::string& text) {
  return std::regex_replace(text, std::regex(R"([0-9]+ (characters|samples)/s)"), "");
}

// The port: `diff` itself says what changed.
std::string port_diff(const std::string& context) {
  ChildProcess diff({"diff", context, "--label", "single_device.cc", "--label", "distributed.cc",
                     source("port/single_device.cc"), source("port/distributed.cc")},
                    {});
  return diff.wait(std::chrono::steady_clock::now() + std::chrono::seconds(10)).output;
}

TEST(Port, ChangesFiveLinesAndTheInclude) {
  std::istringstream lines(port_diff("-U0"));
  int added = 0, includes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("+") || line.starts_with("+++")) continue;
    ++(line.starts_with("+#include") ? includes : added);
    EXPECT_LE(line.size(), 101u) << "one line is one line of 100 columns";
    EXPECT_EQ(std::count(line.begin(), line.end(), ';'), line.starts_with("+#include") ? 0 : 1);
  }
  EXPECT_EQ(added, 5) << port_diff("-U0");
  EXPECT_EQ(includes, 1);
}

TEST(Port, HasItsDifferenceInTheReadme) {
  const std::string diff = port_diff("-U1");
  const std::string hunks = diff.substr(diff.find("@@"));
  EXPECT_NE(text_of(source("port/README.md")).find("```diff\n" + hunks + "```"), std::string::npos)
      << hunks;
}

TEST(First, IsTheFirstProgramInTheSdksReadme) {
  EXPECT_NE(text_of(source("../trainer/README.md"))
                .find("```cpp\n" + text_of(source("first/first.cc")) + "```"),
            std::string::npos);
}

TEST(First, FindsTheSlopeAloneAndOnTwoRanks) {
  expect_close(numbers(output_alone({example("first")}), "slope"), {3}, 0.05);
  const auto ranks = run_ranks({.argv = {example("first")}, .world_size = 2});
  expect_close(numbers(ranks[0].output, "slope"), {3}, 0.05);
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].output;
  EXPECT_EQ(ranks[1].output, "") << "print() prints once";
}

TEST(Port, TrainsAloneAndOnTwoRanksAndUnderTorchrun) {
  const auto check = [](const std::string& output) {
    const auto accuracies = numbers(output, "accuracy");
    ASSERT_GE(accuracies.size(), 10u) << output;
    EXPECT_GT(accuracies.back(), 95) << output;
  };
  check(output_alone({example("port_single_device")}));
  check(output_alone({example("port_distributed")}));
  const auto ranks = run_ranks({.argv = {example("port_distributed")}, .world_size = 2});
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].output;
  check(ranks[0].output);
  EXPECT_EQ(ranks[0].output, ranks[1].output) << "the ranks hold the same weights";
  check(output_alone({TestPython(), "-m", "torch.distributed.run", "--standalone",
                      "--nproc-per-node", "2", "--no-python", example("port_distributed")}));
}

// A transformer so small that its steps take milliseconds.
std::vector<std::string> small_transformer(const std::vector<std::string>& more) {
  std::vector<std::string> options = {"--layers",       "2", "--width",  "32", "--context",   "32",
                                      "--global-batch", "8", "--warmup", "2",  "--log-every", "1",
                                      "--sample",       "40"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<std::string> joined(std::vector<std::string> some,
                                const std::vector<std::string>& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

TEST(CharTransformer, KeepsItsGlobalBatchOnAnyNumberOfRanks) {
  const auto options = small_transformer({"--steps", "6", "--micro-batch", "2"});
  const std::string alone = output_alone(joined({example("char_transformer")}, options));
  const std::string two = output_of(2, {example("char_transformer")}, options);
  EXPECT_NE(alone.find("8 = 2 micro-batch × 4 accumulation × 1 rank"), std::string::npos) << alone;
  EXPECT_NE(two.find("8 = 2 micro-batch × 2 accumulation × 2 rank"), std::string::npos) << two;
  expect_close(numbers(alone, "loss"), numbers(two, "loss"), 2e-4);
}

TEST(CharTransformer, LearnsInBfloat16) {
  const auto options = small_transformer(
      {"--steps", "60", "--micro-batch", "4", "--precision", "bf16", "--log-every", "20"});
  const auto losses = numbers(output_of(2, {example("char_transformer")}, options), "loss");
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_LT(losses[2], 0.9 * losses[0]);
}

TEST(CharTransformer, ContinuesAsIfItHadNeverStopped) {
  const TemporaryDirectory directory;
  const auto options =
      small_transformer({"--steps", "8", "--micro-batch", "2", "--dropout", "0.1", "--ema", "0.9",
                         "--checkpoint-every", "3", "--checkpoint-dir", directory.path()});
  const std::string whole = without_speed(output_of(2, {example("char_transformer")}, options));
  std::filesystem::remove_all(directory / "step-8");
  std::filesystem::remove_all(directory / "step-6");
  const std::string resumed = without_speed(output_of(2, {example("char_transformer")}, options));
  EXPECT_NE(resumed.find("resumed from step 3"), std::string::npos) << resumed;
  const size_t step_4 = whole.find("step    4/8");
  ASSERT_NE(step_4, std::string::npos) << whole;
  EXPECT_NE(resumed.find(whole.substr(step_4)), std::string::npos) << whole << resumed;
}

TEST(CharTransformer, TakesTheSameStepsInEveryStage) {
  const auto options = small_transformer({"--steps", "6", "--micro-batch", "2", "--clip", "1000"});
  const auto lines_of = [&](const std::string& stage) {
    const std::string output =
        output_of(2, {example("char_transformer"), "--sharding", stage}, options);
    EXPECT_NE(output.find("rank 0 held parameters"), std::string::npos) << output;
    return without_speed(output.substr(0, output.find("rank 0 held")));
  };
  const std::string whole = lines_of("none");
  for (const char* stage : {"zero1", "zero2", "zero3"}) EXPECT_EQ(lines_of(stage), whole) << stage;
}

TEST(CharTransformer, WritesATraceOfEachRankAndSaysWhatWasHidden) {
  const TemporaryDirectory directory;
  const auto options = small_transformer({"--steps", "10", "--micro-batch", "2", "--sharding",
                                          "zero3", "--profile", directory.path()});
  const std::string output = output_of(2, {example("char_transformer")}, options);
  EXPECT_NE(output.find("communication"), std::string::npos) << output;
  for (const char* file : {"trace-rank-00000-cycle-0.json", "trace-rank-00001-cycle-0.json"}) {
    EXPECT_TRUE(std::filesystem::exists(directory / file)) << file;
  }
}

TEST(CharTransformer, TakesTheStepsOfItsPythonTwin) {
  const auto options = small_transformer({"--steps", "5", "--micro-batch", "2", "--in-order"});
  const std::string cpp = output_of(2, {example("char_transformer")}, options);
  const std::string python =
      output_of(2, {TestPython(), source("char_transformer/train.py")}, options);
  expect_close(numbers(cpp, "loss"), numbers(python, "loss"), 2e-4);
  expect_close(numbers(cpp, "lr"), numbers(python, "lr"), 1e-6);
}

TEST(Digits, TakeTheStepsOfTheirPythonTwin) {
  const std::vector<std::string> options = {"--in-order", "--epochs", "1"};
  const std::string cpp = output_of(2, {example("digits")}, options);
  const std::string python = output_of(2, {TestPython(), source("digits/train.py")}, options);
  // Steps are equal except for the short last one of an epoch: Accelerate pads it with repeated
  // samples.
  expect_close(numbers(cpp, "loss"), numbers(python, "loss"), 2e-3);
  expect_close(numbers(cpp, "accuracy"), numbers(python, "accuracy"), 1.0);
}

TEST(Regression, MeasuresEverySampleOnceOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3}) {
    const std::string output = output_of(ranks, {example("regression")}, {"--epochs", "3"});
    EXPECT_NE(output.find("kept 501"), std::string::npos) << output;
    const auto over_ranks = numbers(output, "over the ranks"), alone = numbers(output, "in one go");
    expect_close(over_ranks, alone, 1e-7);
    const auto batches = numbers(output, "a rank has");
    ASSERT_EQ(batches.size(), static_cast<size_t>(ranks));
    if (ranks > 1) {
      EXPECT_LT(batches.front(), batches.back());
    }
  }
}

TEST(Regression, HasAPythonTwin) {
  const std::string output =
      output_of(2, {TestPython(), source("regression/train.py")}, {"--epochs", "2"});
  EXPECT_NE(output.find("kept 501"), std::string::npos) << output;
}

TEST(Options, ThatAreWrongAreNamed) {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--epochs", "0"}, {"--epochs"}, {"--epoch", "3"}, {"--lr", "fast"}}) {
    ChildProcess digits(joined({example("digits")}, wrong), {});
    const auto result = digits.wait(std::chrono::steady_clock::now() + std::chrono::seconds(20));
    EXPECT_EQ(result.exit_code, 93);
    EXPECT_NE(result.output.find(wrong[0]), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace muster
