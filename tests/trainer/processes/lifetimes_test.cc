// What lives longer or shorter than was thought: models that are prepared again, handles that outlive
// what made them, forked children, registered state that a checkpoint lacks.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<std::map<std::string, std::string>> outcome(std::vector<std::string> arguments,
                                                        int world = 2) {
  arguments.insert(arguments.begin(), TestBuild("bin/tests/trainer_lifetime_ranks"));
  std::vector<std::map<std::string, std::string>> values;
  for (const ChildResult& rank : run_ranks({.argv = arguments, .world_size = world})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    values.push_back(said(rank));
  }
  return values;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Models, ArePreparedAgainFromTheirShardsInTheSameAndInAnotherStage) {
  for (auto& rank : outcome({"again"})) {
    for (const std::string name :
         {"ddp-zero3", "zero1-ddp", "zero2-zero1", "zero3-zero2", "zero3-ddp-bf16"}) {
      EXPECT_EQ(rank[name + ".kept"], "yes") << name;
      EXPECT_EQ(rank[name + ".same"], "yes") << name;
      EXPECT_EQ(rank[name + ".other"], "yes") << name;
      EXPECT_TRUE(has(rank[name + ".refused"], "prepared again: use what the last prepare()"))
          << name << rank[name + ".refused"];
      if (name.starts_with("zero")) {
        EXPECT_TRUE(has(rank[name + ".old"], "released by free_memory()")) << rank[name + ".old"];
      }
      if (!name.starts_with("zero3")) continue;
      EXPECT_TRUE(has(rank[name + ".read"], "by get_state_dict(model)")) << rank[name + ".read"];
    }
  }
}

TEST(Handles, MayEndInAnyOrder) {
  for (auto& rank : outcome({"outlive", "8"})) {
    for (const char* stage : {"ddp", "zero1", "zero2", "zero3"}) EXPECT_EQ(rank[stage], "alive");
  }
}

TEST(Children, EndWithTheirOwnCodeAndLeaveTheRanksAlone) {
  for (auto& rank : outcome({"fork", "7"})) {
    EXPECT_EQ(rank["child"], "7");
    EXPECT_EQ(rank["sum"], "3");
  }
}

TEST(Saves, ThatAreRepeatedAreSettledByAllRanksTogether) {
  const TemporaryDirectory directory;
  for (auto& rank : outcome({"repeated", directory.path()}, 3)) {
    for (const std::string kind : {"at_once.", "asynchronous."}) {
      EXPECT_EQ(rank[kind + "again"], "same");
      EXPECT_EQ(rank[kind + "loaded"], "same");
      EXPECT_TRUE(has(rank[kind + "trained"],
                      "step 1 was saved or loaded by this run, which has "
                      "trained or loaded something since"))
          << rank[kind + "trained"];
      EXPECT_TRUE(has(rank[kind + "gone"], "step-2, which is gone")) << rank[kind + "gone"];
      EXPECT_EQ(rank[kind + "next"], "none");
    }
  }
}

TEST(RegisteredState, ThatTheCheckpointLacksIsNamedWithHowToLoadWithoutIt) {
  const TemporaryDirectory directory;
  for (auto& rank : outcome({"registered", directory.path()})) {
    EXPECT_TRUE(has(rank["error"], "step-1 has no registered state 'added'")) << rank["error"];
    EXPECT_TRUE(has(rank["error"], "register_for_checkpointing(\"added\", …) after load_state()"))
        << rank["error"];
  }
}

}  // namespace
}  // namespace muster
