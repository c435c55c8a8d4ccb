// Nets that Python exports, trained by C++: bit for bit Python's numbers on one rank and under DDP, and sharded the same losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

constexpr double kDifferenceMax = 1.1e-6;

// MUSTER_EXPORTED_NETS names others, or all twelve.
std::vector<std::string> nets() {
  const char* chosen = std::getenv("MUSTER_EXPORTED_NETS");
  std::istringstream words(chosen == nullptr ? "cnn lstm bert llama" : chosen);
  std::vector<std::string> names;
  for (std::string name; words >> name;) names.push_back(name);
  return names;
}

class ExportedNets : public testing::Test {
 protected:
  // One Python process for all tests.
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    std::vector<std::string> argv = {
        TestPython(), TestSource("tests/trainer/exported/exported_nets.py"), directory_->path()};
    for (const std::string& name : nets()) argv.push_back(name);
    ChildProcess child(argv, {{"OMP_NUM_THREADS", "1"}, {"PYTHONPATH", TestSource("python/src")}});
    const ChildResult wrote =
        child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(300));
    ASSERT_EQ(wrote.exit_code, 0) << wrote.output;
  }
  static void TearDownTestSuite() { delete directory_; }

  // What the ranks say of all nets.
  static std::vector<std::map<std::string, std::string>> trained(
      const std::string& mode, int world_size, std::map<std::string, std::string> environment = {},
      const std::vector<std::string>& chosen = nets()) {
    environment["OMP_NUM_THREADS"] = "1";
    RankPlan plan{.argv = {TestBuild("bin/tests/trainer_exported_ranks"), mode, directory_->path()},
                  .world_size = world_size,
                  .environment = environment,
                  .deadline = std::chrono::seconds(300)};
    for (const std::string& name : chosen) plan.argv.push_back(name);
    std::vector<std::map<std::string, std::string>> ranks;
    for (const ChildResult& rank : run_ranks(plan)) {
      EXPECT_EQ(rank.exit_code, 0) << rank.output;
      ranks.push_back(said(rank));
    }
    return ranks;
  }

  static TemporaryDirectory* directory_;
};
TemporaryDirectory* ExportedNets::directory_ = nullptr;

TEST_F(ExportedNets, HavePythonsBitsOnOneRankInBothModes) {
  const auto said = trained("one", 1).at(0);
  for (const std::string& net : nets()) {
    for (const char* what : {"losses", "gradients", "state", "names", "evaluation"}) {
      ASSERT_TRUE(said.contains(net + "." + what)) << net;
      EXPECT_EQ(said.at(net + "." + what), "0") << net << " " << what;
    }
  }
  for (const auto& [name, value] : said) EXPECT_EQ(value, "0") << name;
}

TEST_F(ExportedNets, HavePythonsBitsOnTwoRanksUnderDdp) {
  for (const auto& rank : trained("ddp", 2)) {
    for (const std::string& net : nets()) {
      ASSERT_TRUE(rank.contains(net + ".losses")) << net;
      EXPECT_EQ(rank.at(net + ".losses"), "0") << net;
    }
  }
}

// A value that several blocks read gets its gradient in another order of additions when they are computed again.
TEST_F(ExportedNets, TrainTheSameWhenTheyAreShardedOrComputeBlocksAgain) {
  for (const char* mode : {"blocks", "zero1", "zero3"}) {
    for (const auto& rank : trained(mode, 2)) {
      for (const std::string& net : nets()) {
        ASSERT_TRUE(rank.contains(net + ".difference")) << net;
        EXPECT_LE(std::stod(rank.at(net + ".difference")), kDifferenceMax) << mode << " " << net;
      }
    }
  }
}

// Its memory cannot be read from the CPU: every device in a graph is that of the run. Nets without random numbers, which
// there are others.
TEST_F(ExportedNets, TrainOnADeviceThatTheFileDoesNotName) {
  const std::vector<std::string> chosen = {"cnn", "llama"};
  for (const auto& rank :
       trained("ddp", 2,
               {{"MUSTER_DEVICE", "remote"},
                {"MUSTER_PLUGIN_PATH", TestBuild("tests/trainer/device/plugins")},
                {"TORCH_CPP_LOG_LEVEL", "ERROR"}},
               chosen)) {
    for (const std::string& net : chosen) {
      ASSERT_TRUE(rank.contains(net + ".difference")) << net;
      EXPECT_LE(std::stod(rank.at(net + ".difference")), kDifferenceMax) << net;
    }
  }
}

}  // namespace
}  // namespace muster
