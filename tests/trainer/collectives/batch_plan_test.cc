// The solver of micro-batch × accumulation × ranks: examples, properties over many contracts, and
// the alternatives that its errors suggest.
#include "muster/collectives/batch_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <regex>
#include <stdexcept>

namespace muster {
namespace {

std::string refusal_of(const BatchContract& contract, int64_t world_size) {
  try {
    const BatchPlan plan = plan_batch(contract, world_size);
    return "planned: " + plan.equation();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

bool works(const BatchContract& contract, int64_t world_size) {
  return refusal_of(contract, world_size).starts_with("planned");
}

TEST(BatchPlan, TakesTheLargestMicroBatchThatFitsAndDivides) {
  const BatchPlan plan = plan_batch({.global_batch = 32, .max_micro_batch = 8}, 2);
  EXPECT_EQ(plan, (BatchPlan{8, 2, 2, 32, 1.0}));
  EXPECT_EQ(plan.equation(), "global batch 32 = 8 micro-batch × 2 accumulation × 2 ranks");
  // 7 fits, but 5 is the largest divisor of 15 up to it.
  EXPECT_EQ(plan_batch({.global_batch = 30, .max_micro_batch = 7}, 2).micro_batch, 5);
  EXPECT_EQ(plan_batch({.global_batch = 32}, 1).equation(),
            "global batch 32 = 32 micro-batch × 1 accumulation × 1 rank");
}

TEST(BatchPlan, KeepsAFixedMicroBatchOrAccumulation) {
  EXPECT_EQ(plan_batch({.global_batch = 96, .micro_batch = 8}, 3).accumulation_steps, 4);
  EXPECT_EQ(plan_batch({.global_batch = 96, .accumulation_steps = 2}, 3).micro_batch, 16);
  EXPECT_FALSE(works({.global_batch = 96, .micro_batch = 8, .accumulation_steps = 2}, 3));
  EXPECT_TRUE(works({.global_batch = 48, .micro_batch = 8, .accumulation_steps = 2}, 3));
}

TEST(BatchPlan, RefusesWithAlternativesWhenItDoesNotDivide) {
  EXPECT_EQ(refusal_of({.global_batch = 32, .max_micro_batch = 8}, 3),
            "plan_batch: global batch 32 cannot be split over 3 ranks: use a global batch of 30 or "
            "33, 2 or 4 ranks, or keep_global_batch = false with a learning_rate_rule, which lets "
            "the global batch change");
  const std::string fixed = refusal_of({.global_batch = 32, .micro_batch = 6}, 2);
  EXPECT_NE(fixed.find("in micro-batches of 6: use a global batch of 24 or 36"), std::string::npos)
      << fixed;
  EXPECT_NE(fixed.find("a micro_batch of 4 or 8"), std::string::npos) << fixed;
  EXPECT_NE(refusal_of({.global_batch = 2}, 8).find("use a global batch of 8, "),
            std::string::npos);
}

TEST(BatchPlan, FollowsTheWorldWhenTheGlobalBatchMayChange) {
  // Tuned on 8 GPUs with 32 samples each.
  BatchContract contract{.global_batch = 256,
                         .micro_batch = 32,
                         .keep_global_batch = false,
                         .learning_rate_rule = LearningRateRule::linear};
  EXPECT_EQ(plan_batch(contract, 8), (BatchPlan{32, 1, 8, 256, 1.0}));
  EXPECT_EQ(plan_batch(contract, 2), (BatchPlan{32, 1, 2, 64, 0.25}));
  contract.learning_rate_rule = LearningRateRule::square_root;
  EXPECT_EQ(plan_batch(contract, 2).learning_rate_factor, 0.5);
  contract.learning_rate_rule = LearningRateRule::none;
  EXPECT_EQ(plan_batch(contract, 2).learning_rate_factor, 1.0);
  // Accumulation makes up for the missing GPUs.
  contract.accumulation_steps = 4;
  contract.learning_rate_rule = LearningRateRule::linear;
  EXPECT_EQ(plan_batch(contract, 2), (BatchPlan{32, 4, 2, 256, 1.0}));
}

TEST(BatchPlan, MovesToTheNearestGlobalBatchThatDivides) {
  const BatchContract contract{.global_batch = 32,
                               .max_micro_batch = 16,
                               .keep_global_batch = false,
                               .learning_rate_rule = LearningRateRule::linear};
  EXPECT_EQ(plan_batch(contract, 3), (BatchPlan{11, 1, 3, 33, 33.0 / 32.0}));
  EXPECT_EQ(plan_batch(contract, 2).global_batch, 32);
  EXPECT_EQ(plan_batch(contract, 64).global_batch, 64);  // at least one sample per rank
}

TEST(BatchPlan, ScalesTheLearningRateFromTheBatchItWasTunedFor) {
  const BatchContract contract{.global_batch = 1024,
                               .max_micro_batch = 64,
                               .learning_rate_rule = LearningRateRule::square_root,
                               .reference_global_batch = 256};
  EXPECT_EQ(plan_batch(contract, 4).learning_rate_factor, 2.0);
}

TEST(BatchPlan, RefusesNumbersOutOfRangeByTheirName) {
  const auto names = [](const BatchContract& contract, int64_t world_size, const char* name) {
    const std::string text = refusal_of(contract, world_size);
    EXPECT_NE(text.find(std::string(name) + " is "), std::string::npos) << text;
  };
  names({}, 1, "global_batch");
  names({.global_batch = -4}, 1, "global_batch");
  names({.global_batch = int64_t{1} << 41}, 1, "global_batch");
  names({.global_batch = 4}, 0, "world_size");
  names({.global_batch = 4, .max_micro_batch = -1}, 1, "max_micro_batch");
  names({.global_batch = 4, .micro_batch = 0}, 1, "micro_batch");
  names({.global_batch = 4, .accumulation_steps = 0}, 1, "accumulation_steps");
  names({.global_batch = 4, .reference_global_batch = 0}, 1, "reference_global_batch");
  names({.global_batch = 8, .max_micro_batch = 2, .micro_batch = 4}, 1, "micro_batch 4");
  names({.global_batch = 4, .micro_batch = int64_t{1} << 30, .keep_global_batch = false},
        int64_t{1} << 30, "the global batch for this world size");
}

BatchContract random_contract(std::mt19937& random) {
  const auto number = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  BatchContract contract{.global_batch = number(500)};
  if (number(3) > 1) contract.max_micro_batch = number(64);
  if (number(3) == 1) {
    contract.micro_batch = number(contract.max_micro_batch > 0 ? contract.max_micro_batch : 32);
  }
  if (number(4) == 1) contract.accumulation_steps = number(8);
  contract.keep_global_batch = number(2) == 1;
  contract.learning_rate_rule = static_cast<LearningRateRule>(number(3) - 1);
  if (number(2) == 1) contract.reference_global_batch = number(500);
  return contract;
}

// The largest micro-batch that works with any accumulation, found by exhaustive search.
int64_t largest_by_trying(const BatchContract& contract, int64_t world_size) {
  for (int64_t micro = contract.global_batch; micro >= 1; --micro) {
    if (contract.max_micro_batch > 0 && micro > contract.max_micro_batch) continue;
    if (contract.micro_batch && micro != *contract.micro_batch) continue;
    if (contract.global_batch % (micro * world_size) != 0) continue;
    const int64_t steps = contract.global_batch / (micro * world_size);
    if (!contract.accumulation_steps || steps == *contract.accumulation_steps) return micro;
  }
  return 0;
}

TEST(BatchPlan, HoldsItsContractForRandomNumbers) {
  std::mt19937 random(1);
  int planned = 0;
  for (int i = 0; i < 5'000; ++i) {
    const BatchContract contract = random_contract(random);
    const int64_t ranks = std::uniform_int_distribution<int64_t>(1, 12)(random);
    const std::string text = refusal_of(contract, ranks);
    const int64_t largest = largest_by_trying(contract, ranks);
    if (contract.keep_global_batch) {
      ASSERT_EQ(text.starts_with("planned"), largest > 0) << text;
    }
    if (!text.starts_with("planned")) continue;
    ++planned;
    const BatchPlan plan = plan_batch(contract, ranks);
    ASSERT_EQ(plan.micro_batch * plan.accumulation_steps * plan.world_size, plan.global_batch);
    ASSERT_EQ(plan.world_size, ranks);
    ASSERT_EQ(plan.micro_batch, contract.micro_batch.value_or(plan.micro_batch));
    ASSERT_EQ(plan.accumulation_steps,
              contract.accumulation_steps.value_or(plan.accumulation_steps));
    if (contract.max_micro_batch > 0) {
      ASSERT_LE(plan.micro_batch, contract.max_micro_batch);
    }
    if (plan.global_batch == contract.global_batch) {
      ASSERT_EQ(plan.micro_batch, largest);
    }
    if (contract.keep_global_batch) {
      ASSERT_EQ(plan.global_batch, contract.global_batch);
    }
    const double ratio =
        static_cast<double>(plan.global_batch) /
        static_cast<double>(contract.reference_global_batch.value_or(contract.global_batch));
    const double factors[] = {1.0, ratio, std::sqrt(ratio)};
    ASSERT_EQ(plan.learning_rate_factor, factors[static_cast<int>(contract.learning_rate_rule)]);
  }
  EXPECT_GT(planned, 1'000);
}

// Every number that an error suggests for `what` gives a plan.
void check_proposals(const std::string& text, const std::regex& what,
                     const std::function<bool(int64_t)>& accepted) {
  std::smatch match;
  if (!std::regex_search(text, match, what)) return;
  const std::string list = match[1];
  const std::regex number("[0-9]+");
  for (std::sregex_iterator at(list.begin(), list.end(), number), end; at != end; ++at) {
    EXPECT_TRUE(accepted(std::stoll(at->str()))) << at->str() << " in: " << text;
  }
}

TEST(BatchPlan, ProposesOnlyWhatWorks) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    BatchContract contract = random_contract(random);
    contract.keep_global_batch = true;
    const int64_t ranks = std::uniform_int_distribution<int64_t>(1, 12)(random);
    const std::string text = refusal_of(contract, ranks);
    if (text.starts_with("planned")) continue;
    const std::string numbers = "([0-9]+(?: or [0-9]+)?)";
    check_proposals(text, std::regex("a global batch of " + numbers), [&](int64_t batch) {
      BatchContract other = contract;
      other.global_batch = batch;
      return works(other, ranks);
    });
    check_proposals(text, std::regex("[:,] (?:use )?" + numbers + " ranks?,"),
                    [&](int64_t count) { return works(contract, count); });
    check_proposals(text, std::regex("a micro_batch of " + numbers), [&](int64_t size) {
      BatchContract other = contract;
      other.micro_batch = size;
      return works(other, ranks);
    });
    check_proposals(text, std::regex(numbers + " accumulation_steps"), [&](int64_t steps) {
      BatchContract other = contract;
      other.accumulation_steps = steps;
      return works(other, ranks);
    });
  }
}

}  // namespace
}  // namespace muster
