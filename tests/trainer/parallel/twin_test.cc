// Bit for bit: Python's DistributedDataParallel and the SDK train the same cases on real ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "parallel/rank_output.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

const std::vector<std::string> kCases = {
    "plain",      "default_caps", "no_view",     "batched_copy",   "no_buffers",
    "accumulate", "evaluation",   "find_unused", "static_graph",   "skip_unused",
    "fp16",       "bf16",         "join",        "join_by_active", "find_unused_join"};

// The lines of each case, by rank; each language runs all cases once.
using Curves = std::vector<std::map<std::string, std::string>>;

Curves curves_of(const std::vector<ChildResult>& results) {
  Curves curves;
  for (const ChildResult& result : results) {
    auto& cases = curves.emplace_back();
    std::istringstream lines(result.output);
    std::string name = "before";
    for (std::string line; std::getline(lines, line);) {
      // Skip warnings about options in between.
      if (line.find_first_of("-0123456789ce") != 0) continue;
      if (line.starts_with("case ")) name = line.substr(5);
      cases[name] += line + "\n";
    }
  }
  return curves;
}

struct Twins {
  std::vector<ChildResult> python_results;
  Curves cpp, python;
};

const Twins& twins_on(int world_size) {
  static std::map<int, Twins> all;
  if (const auto found = all.find(world_size); found != all.end()) return found->second;
  Twins& twins = all[world_size];
  std::vector<std::string> arguments = {"twins"};
  arguments.insert(arguments.end(), kCases.begin(), kCases.end());
  const auto results = run_scenario(world_size, arguments);
  for (const ChildResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
  twins.cpp = curves_of(results);
  RankPlan python{.argv = {TestPython(), TestSource("tests/trainer/parallel/ddp_twin.py")},
                  .world_size = world_size};
  python.argv.insert(python.argv.end(), kCases.begin(), kCases.end());
  python.environment = {{"GLOO_SOCKET_IFNAME", "lo"}, {"PYTHONWARNINGS", "ignore"}};
  twins.python_results = run_ranks(python);
  twins.python = curves_of(twins.python_results);
  return twins;
}

class Twin : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(Twin, EqualsPythonsDistributedDataParallelBitForBit) {
  const auto& [world_size, name] = GetParam();
  const Twins& twins = twins_on(world_size);
  if (twins.python_results[0].output.find("No module named") != std::string::npos) {
    GTEST_SKIP() << "no Python with torch";
  }
  for (int rank = 0; rank < world_size; ++rank) {
    ASSERT_EQ(twins.python_results[rank].exit_code, 0) << twins.python_results[rank].output;
    ASSERT_TRUE(twins.python[rank].contains(name));
    EXPECT_EQ(twins.cpp[rank].at(name), twins.python[rank].at(name)) << "rank " << rank;
  }
}

// Parameters and averaged gradients: the columns in which ranks must not differ.
TEST_P(Twin, KeepsTheRanksAlike) {
  const auto& [world_size, name] = GetParam();
  const Curves& curves = twins_on(world_size).cpp;
  const std::string& first = curves[0].at(name);
  for (const auto& rank : curves) {
    const std::string& curve = rank.at(name);
    const size_t end = first.rfind("end "), own_end = curve.rfind("end ");
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(curve.substr(own_end, curve.find(' ', own_end + 4) - own_end),
              first.substr(end, first.find(' ', end + 4) - end));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Twin,
                         ::testing::Combine(::testing::Values(2, 3), ::testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return std::get<1>(info.param) + "_on_" +
                                  std::to_string(std::get<0>(info.param)) + "_ranks";
                         });

}  // namespace
}  // namespace muster
