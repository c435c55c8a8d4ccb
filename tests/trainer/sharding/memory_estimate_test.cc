// Estimates against hand-computed numbers and those of the papers.
#include "muster/sharding/memory_estimate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

namespace muster {
namespace {

MemoryPlan plan_of(ZeroStage stage, int world_size) {
  return {.root = {"root", 10, 0, 6},
          .units = {{"a", 100, 0, 50}, {"b", 71, 0, 60}, {"c", 30, 5, 20}},
          .stage = stage,
          .world_size = world_size};
}

TEST(MemoryEstimate, OfDdpHasEverythingWhole) {
  const MemoryEstimate estimate = estimate_memory(plan_of(ZeroStage::none, 4));
  EXPECT_EQ(estimate.parameters, 4 * 216);
  EXPECT_EQ(estimate.gradients, 4 * 211);
  EXPECT_EQ(estimate.optimizer_state, 8 * 211);
  EXPECT_EQ(estimate.gathered, 0);
  EXPECT_EQ(estimate.communication, 0);
  EXPECT_EQ(estimate.total(), 4 * 216 + 12 * 211);
  EXPECT_EQ(estimate.whole_tensor, 4 * 60);
}

// On four ranks the chunks are ceil(10/4) = 3, 25, ceil(71/4) = 18, ceil(35/4) = 9: 55 together.
TEST(MemoryEstimate, OfZeroStagesDividesUnitsPaddedToEqualChunks) {
  const MemoryEstimate one = estimate_memory(plan_of(ZeroStage::zero1, 4));
  EXPECT_EQ(one.parameters, 4 * 4 * 55);
  EXPECT_EQ(one.gradients, 4 * 211);
  EXPECT_EQ(one.optimizer_state, 8 * 55);

  const MemoryEstimate two = estimate_memory(plan_of(ZeroStage::zero2, 4));
  EXPECT_EQ(two.parameters, 4 * 4 * 55);
  EXPECT_EQ(two.gradients, 4 * 55);
  EXPECT_EQ(two.optimizer_state, 8 * 55);
  // Whole gradients of the root and of a; a's flat gradient and its chunk.
  EXPECT_EQ(two.communication, 4 * (10 + 100) + 4 * (100 + 25));

  const MemoryEstimate three = estimate_memory(plan_of(ZeroStage::zero3, 4));
  EXPECT_EQ(three.parameters, 4 * 55);
  EXPECT_EQ(three.gradients, 4 * 55);
  EXPECT_EQ(three.optimizer_state, 8 * 55);
  EXPECT_EQ(three.gathered, 4 * 4 * (3 + 25 + 18));
  EXPECT_EQ(three.communication, two.communication);
}

TEST(MemoryEstimate, FollowsTheOptionsOfZero3) {
  MemoryPlan plan = plan_of(ZeroStage::zero3, 4);
  plan.prefetch = false;
  EXPECT_EQ(estimate_memory(plan).gathered, 4 * 4 * (3 + 25));
  plan.reshard_after_forward = false;
  EXPECT_EQ(estimate_memory(plan).gathered, 4 * 4 * 55);
  plan.parameter_bytes = plan.gradient_bytes = 2;
  EXPECT_EQ(estimate_memory(plan).gathered, 2 * 4 * 55);
  EXPECT_EQ(estimate_memory(plan).parameters, 4 * 55);
  EXPECT_EQ(estimate_memory(plan).communication, 2 * (10 + 100) + 4 * (100 + 25));
  plan.emulated_reduce_scatter = true;
  EXPECT_EQ(estimate_memory(plan).communication, 2 * (10 + 100) + 4 * (100 + 100 + 25));
  plan.accumulates_whole_gradients = true;
  EXPECT_EQ(estimate_memory(plan).communication, 2 * 211 + 4 * (100 + 100 + 25));
}

TEST(MemoryEstimate, OfHybridShardingDividesWithinTheGroup) {
  MemoryPlan plan = plan_of(ZeroStage::zero3, 8);
  plan.shard_group_size = 4;
  const MemoryEstimate hybrid = estimate_memory(plan);
  EXPECT_EQ(hybrid.total(), estimate_memory(plan_of(ZeroStage::zero3, 4)).total());
  EXPECT_EQ(hybrid.shards, 4);
  EXPECT_EQ(hybrid.world_size, 8);
  plan.stage = ZeroStage::none;
  EXPECT_EQ(estimate_memory(plan).total(), estimate_memory(plan_of(ZeroStage::none, 1)).total());
}

TEST(MemoryEstimate, CountsMastersWithHalfPrecisionAndAutocastsCopies) {
  MemoryPlan plan = plan_of(ZeroStage::zero2, 4);
  plan.parameter_bytes = plan.gradient_bytes = 2;
  EXPECT_EQ(estimate_memory(plan).parameters, 2 * 4 * 55 + 4 * 55);
  plan.stage = ZeroStage::zero1;
  EXPECT_EQ(estimate_memory(plan).gradients, 2 * 211 + 4 * 55);
  plan = plan_of(ZeroStage::none, 4);
  plan.autocast_bytes = 2;
  plan.gradient_as_bucket_view = false;
  EXPECT_EQ(estimate_memory(plan).gathered, 2 * 216);
  EXPECT_EQ(estimate_memory(plan).communication, 4 * 211);
}

TEST(MemoryEstimate, OfFrozenParametersHasNoGradientsNorState) {
  MemoryPlan plan{
      .units = {{"base", 0, 1000}, {"adapter", 8, 0}}, .stage = ZeroStage::zero3, .world_size = 4};
  const MemoryEstimate estimate = estimate_memory(plan);
  EXPECT_EQ(estimate.parameters, 4 * 252);
  EXPECT_EQ(estimate.gradients, 4 * 2);
  EXPECT_EQ(estimate.optimizer_state, 8 * 2);
  EXPECT_EQ(estimate.communication, 4 * 8 + 4 * (8 + 2));
}

// Figure 1 of the ZeRO paper: 7.5 billion parameters, 64 ranks, mixed-precision Adam: 120 GB,
// 31.4 GB, 16.6 GB, 1.9 GB of model states. Ours keep the reduced gradient in float32.
TEST(MemoryEstimate, IsThatOfTheZeroPaper) {
  constexpr double kGiga = 1e9;
  MemoryPlan plan{.parameter_bytes = 2, .gradient_bytes = 2};
  for (int i = 0; i < 75; ++i) plan.units.push_back({"u", 100'000'000, 0, 0});
  plan.world_size = 64;
  const auto states = [&](ZeroStage stage) {
    plan.stage = stage;
    const MemoryEstimate estimate = estimate_memory(plan);
    return (estimate.parameters + estimate.gradients + estimate.optimizer_state) / kGiga;
  };
  const double float32_chunk = 7.5 * 4 / 64, half_chunk = 7.5 * 2 / 64;
  // DDP trains float32 parameters with float32 gradients under autocast: 4 + 4 + 8.
  plan.gradient_bytes = 4;
  EXPECT_NEAR(states(ZeroStage::none), 120, 0.01);
  plan.gradient_bytes = 2;
  EXPECT_NEAR(states(ZeroStage::zero1) - float32_chunk, 31.4, 0.05);
  EXPECT_NEAR(states(ZeroStage::zero2) - float32_chunk + half_chunk, 16.6, 0.05);
  // The paper keeps half-precision parameters and gradients in addition to the master: 2 + 2 + 12.
  EXPECT_NEAR(states(ZeroStage::zero3), 1.88, 0.01);
}

TEST(MemoryEstimate, KnowsTheStateOfOptimizers) {
  EXPECT_EQ(optimizer_state_bytes("adamw"), 8);
  EXPECT_EQ(optimizer_state_bytes("sgd"), 0);
  EXPECT_EQ(optimizer_state_bytes("sgd_momentum"), 4);
  EXPECT_EQ(optimizer_state_bytes("adagrad"), 4);
  EXPECT_THROW(optimizer_state_bytes("lion"), std::invalid_argument);
}

TEST(MemoryEstimate, RefusesWhatMakesNoSenseByName) {
  const auto refused = [](auto change, const char* field) {
    MemoryPlan plan = plan_of(ZeroStage::zero3, 4);
    change(plan);
    try {
      estimate_memory(plan);
      ADD_FAILURE() << field;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    }
  };
  refused([](MemoryPlan& plan) { plan.world_size = 0; }, "world_size");
  refused([](MemoryPlan& plan) { plan.shard_group_size = 3; }, "shard_group_size");
  refused([](MemoryPlan& plan) { plan.units[1].trainable = -1; }, "units[b].trainable");
  refused([](MemoryPlan& plan) { plan.root.largest_tensor = 11; }, "root.largest_tensor");
  refused([](MemoryPlan& plan) { plan.parameter_bytes = 0; }, "parameter_bytes");
  refused([](MemoryPlan& plan) { plan.optimizer_bytes = -1; }, "optimizer_bytes");
}

MemoryPlan seven_billion() {
  MemoryPlan plan{.root = {"root", 500'000'000, 0, 250'000'000}};
  for (int i = 0; i < 32; ++i) plan.units.push_back({"layer", 200'000'000, 0, 50'000'000});
  return plan;
}

TEST(Fits, FindsTheSmallestNumberOfRanksForEachStage) {
  constexpr int64_t kBytes = 40'000'000'000;
  const std::vector<MemoryFit> found = fits(seven_billion(), kBytes, 64);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].world_size, 0);
  EXPECT_EQ(found[0].estimate.total(), 16 * 6'900'000'000);
  for (const MemoryFit& fit : found) {
    if (fit.world_size == 0) continue;
    EXPECT_LE(fit.estimate.total(), kBytes);
    MemoryPlan smaller = seven_billion();
    smaller.stage = fit.stage;
    smaller.world_size = fit.world_size - 1;
    EXPECT_GT(estimate_memory(smaller).total(), kBytes) << zero_stage_name(fit.stage);
  }
  EXPECT_EQ(found[1].world_size, 0) << "parameters and gradients alone are 55 GB";
  EXPECT_EQ(found[2].world_size, 11);
  EXPECT_EQ(found[3].world_size, 4);
  // More memory: DDP fits on one.
  EXPECT_EQ(fits(seven_billion(), 3 * kBytes, 1)[0].world_size, 1);
  // In groups.
  MemoryPlan hybrid = seven_billion();
  hybrid.shard_group_size = 8;
  EXPECT_EQ(fits(hybrid, kBytes, 64)[3].world_size, 8);
  EXPECT_THROW(fits(hybrid, kBytes, 7), std::invalid_argument);
}

TEST(Texts, AreTablesOfAtMostEightyColumns) {
  for (const ZeroStage stage :
       {ZeroStage::none, ZeroStage::zero1, ZeroStage::zero2, ZeroStage::zero3}) {
    MemoryPlan plan = seven_billion();
    plan.stage = stage;
    plan.world_size = 1024;
    plan.shard_group_size = 512;
    const MemoryEstimate estimate = estimate_memory(plan);
    const std::string text = estimate.text() + fits_text(fits(plan, 1'000'000'000, 1024), 1e9);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_NE(text.find(zero_stage_name(stage)), std::string::npos);
    EXPECT_EQ(text.back(), '\n');
  }
}

TEST(MemoryEstimate, IsOfferedOnlyToThePlanThatAsks) {
  unsetenv("MUSTER_ESTIMATE");
  testing::internal::CaptureStdout();
  EXPECT_FALSE(offer_estimate(plan_of(ZeroStage::none, 4)));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  setenv("MUSTER_ESTIMATE", "1", 1);
  testing::internal::CaptureStdout();
  EXPECT_TRUE(offer_estimate(plan_of(ZeroStage::none, 4)));
  EXPECT_EQ(
      testing::internal::GetCapturedStdout(),
      "{\"muster_estimate\": 1, \"bytes_per_rank\": " + std::to_string(4 * 216 + 12 * 211) + "}\n");
  unsetenv("MUSTER_ESTIMATE");
}

}  // namespace
}  // namespace muster
