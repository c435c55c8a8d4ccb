// Checkpointed segments under data parallelism, on two ranks.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<std::map<std::string, std::string>> ranks_of(const std::string& scenario) {
  std::vector<std::map<std::string, std::string>> values;
  for (const ChildResult& result :
       run_ranks({.argv = {TestBuild("bin/tests/checkpointed_parts_ranks"), scenario},
       .world_size = 2})) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    values.push_back(said(result));
  }
  return values;
}

void expect_equal_gradients(const std::string& scenario) {
  for (auto& rank : ranks_of(scenario)) {
    EXPECT_FALSE(rank["plain"].empty());
    EXPECT_EQ(rank["plain"].find_first_not_of("-0123456789"), std::string::npos) << rank["plain"];
    EXPECT_EQ(rank["plain"], rank["checkpointed"]) << scenario;
  }
}

TEST(CheckpointedParts, AreReducedAsUsualWhenEachIsUsedOnce) { expect_equal_gradients("once"); }

TEST(CheckpointedParts, UnderAStaticGraphMayBeUsedTwice) {
  expect_equal_gradients("static");
  expect_equal_gradients("twice_static");
}

TEST(CheckpointedParts, UsedTwiceWithoutAStaticGraphAreRefusedByTheReducer) {
  for (auto& rank : ranks_of("twice")) {
    EXPECT_NE(rank["plain"], "ready twice");
    EXPECT_EQ(rank["checkpointed"], "ready twice");
  }
}

TEST(CheckpointedParts, AreNotSeenByTheSearchForUnusedParameters) {
  for (auto& rank : ranks_of("find_unused")) EXPECT_EQ(rank["checkpointed"], "ready twice");
}

}  // namespace
}  // namespace muster
