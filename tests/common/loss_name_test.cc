// Which metric is a run's loss.
#include "common/loss_name.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/files/files.h"
#include "tests/support/paths.h"

namespace muster::common {
namespace {

using Names = std::vector<std::string>;

nlohmann::json Table() {
  return nlohmann::json::parse(ReadFile(TestSource("tests/common/loss_names.json")).value());
}

TEST(LossNameTest, ALossIsWhatIsCalledOne) {
  const nlohmann::json table = Table();
  for (const std::string name : table["losses"]) EXPECT_TRUE(IsLossName(name)) << name;
  for (const std::string name : table["others"]) EXPECT_FALSE(IsLossName(name)) << name;
}

TEST(LossNameTest, OneOfThemStandsForTheRun) {
  const nlohmann::json table = Table();
  const Names order = table["in_order"];
  Names names = order;
  std::reverse(names.begin(), names.end());
  std::sort(names.begin(), names.end(), IsRatherTheLoss);
  EXPECT_EQ(names, order);
  EXPECT_EQ(LossOf({"lr", "eval_loss", "train_loss", "glossary"}), "train_loss");
  EXPECT_EQ(LossOf({"lr", "eval_loss"}), "eval_loss");
  EXPECT_EQ(LossOf({"lr"}), "");
  EXPECT_EQ(LossOf({}), "");
}

}  // namespace
}  // namespace muster::common
