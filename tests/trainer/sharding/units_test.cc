// Which parameters share a unit: each unit costs collectives, so small blocks are merged.
#include <gtest/gtest.h>
#include <muster/trainer.h>

#include <map>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

struct LayersImpl : torch::nn::Module {
  explicit LayersImpl(const std::vector<int64_t>& widths) {
    layers = register_module("layers", torch::nn::ModuleList());
    for (const int64_t width : widths) layers->push_back(torch::nn::Linear(width, width));
    head = register_module("head", torch::nn::Linear(16, 4));
  }
  torch::nn::ModuleList layers{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Layers);

std::vector<MemoryUnit> units_of(torch::nn::Module& module, const ShardingOptions& options = {}) {
  return memory_plan(module, options, 2).units;
}

TEST(Units, OfManyTinyLayersAreFew) {
  Layers net(std::vector<int64_t>(300, 16));
  EXPECT_EQ(units_of(*net).size(), 1u);
  EXPECT_EQ(units_of(*net)[0].name, "layers.0 … layers.299");
  EXPECT_EQ(units_of(*net, {.unit_numel_min = 0}).size(), 300u);
  EXPECT_EQ(memory_plan(*net, {}, 2).root.trainable, 16 * 4 + 4);
}

TEST(Units, GrowUntilTheyHaveTheLeastNumberOfElements) {
  Layers net(std::vector<int64_t>(100, 64));
  const int64_t least = ShardingOptions().unit_numel_min, layer = 64 * 64 + 64;
  const std::vector<MemoryUnit> units = units_of(*net);
  int64_t all = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    all += units[i].trainable;
    EXPECT_LT(units[i].trainable, least + layer);
    if (i + 1 < units.size()) {
      EXPECT_GE(units[i].trainable, least);
    }
  }
  EXPECT_EQ(all, 100 * layer);
}

TEST(Units, OfLargeLayersAndOfNamedOnesStayApart) {
  Layers net(std::vector<int64_t>{400, 16, 16, 400, 16});
  std::vector<std::string> names;
  for (const MemoryUnit& unit : units_of(*net)) names.push_back(unit.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0", "layers.1 … layers.3", "layers.4"}));
  names.clear();
  const ShardingOptions named{.units = {"layers.1", "layers.2", "head"}};
  for (const MemoryUnit& unit : units_of(*net, named)) names.push_back(unit.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.1", "layers.2", "head"}));
  names.clear();
  const ShardingOptions list{.units = {"layers", "head"}};
  for (const MemoryUnit& unit : units_of(*net, list)) names.push_back(unit.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"layers.0", "layers.1 … layers.3", "layers.4", "head"}));
}

TEST(Units, OfTwoDtypesAreMergedEachWithItsOwn) {
  Layers net(std::vector<int64_t>(6, 16));
  for (const size_t i : {1, 3, 5}) net->layers[i]->to(at::kDouble);
  EXPECT_EQ(units_of(*net).size(), 2u);
}

// Equal in size and dtype, so that nothing but the unit tells them apart: half of each rank's expert
// came from the other's.
TEST(Units, ThatRanksUseDifferentlyUnderZero3EndThemWithUnitAndReason) {
  for (const ChildResult& rank :
       run_ranks({.argv = {TestBuild("bin/tests/trainer_unit_ranks"), "zero3", "experts"},
       .world_size = 2})) {
    EXPECT_EQ(rank.exit_code, 1) << rank.output;
    for (const char* part :
         {"rank 0: unit 'experts.0' is gathered", "rank 1: unit 'experts.1' is gathered",
          "under zero3 all ranks use the same units in the same order"}) {
      EXPECT_NE(rank.output.find(part), std::string::npos) << rank.output;
    }
  }
  std::map<std::string, std::string> weights;
  for (const char* stage : {"none", "zero2"}) {
    const auto ranks = run_ranks(
        {.argv = {TestBuild("bin/tests/trainer_unit_ranks"), stage, "experts"}, .world_size = 2});
    ASSERT_EQ(ranks[0].exit_code, 0) << ranks[0].output;
    weights[stage] = said(ranks[0]).at("weights");
  }
  EXPECT_EQ(weights["none"], weights["zero2"]);
}

// Collectives per step on two ranks: shows the cost of making each layer its own unit.
TEST(Units, OfManyTinyLayersNeedFewCollectives) {
  std::map<std::string, int> collectives;
  for (const char* stage : {"none", "zero1", "zero2", "zero3"}) {
    for (const ChildResult& rank :
         run_ranks({.argv = {TestBuild("bin/tests/trainer_unit_ranks"), stage}, .world_size = 2})) {
      ASSERT_EQ(rank.exit_code, 0) << rank.output;
      collectives[stage] = std::stoi(said(rank).at("collectives"));
    }
    std::printf("300 layers, %s: %d collectives a step\n", stage, collectives[stage]);
    EXPECT_LE(collectives[stage], 24) << stage;
  }
  EXPECT_GE(collectives["zero3"], 3);
}

}  // namespace
}  // namespace muster
