// Micro-batch × accumulation × ranks; see batch_plan.h.
#include "muster/collectives/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace muster {
namespace {

constexpr int64_t kSamplesMax = int64_t{1} << 40;

void check_range(const char* name, int64_t value, int64_t least) {
  if (value >= least && value <= kSamplesMax) return;
  throw std::invalid_argument(std::string("plan_batch: ") + name + " is " + std::to_string(value) +
                              ", but must be " + std::to_string(least) + " to 2^40");
}

void check(const BatchContract& contract, int64_t world_size) {
  check_range("global_batch", contract.global_batch, 1);
  check_range("max_micro_batch", contract.max_micro_batch, 0);
  check_range("world_size", world_size, 1);
  if (contract.micro_batch) check_range("micro_batch", *contract.micro_batch, 1);
  if (contract.accumulation_steps) {
    check_range("accumulation_steps", *contract.accumulation_steps, 1);
  }
  if (contract.reference_global_batch) {
    check_range("reference_global_batch", *contract.reference_global_batch, 1);
  }
  if (contract.micro_batch && contract.max_micro_batch > 0 &&
      *contract.micro_batch > contract.max_micro_batch) {
    throw std::invalid_argument("plan_batch: micro_batch " + std::to_string(*contract.micro_batch) +
                                " is above max_micro_batch " +
                                std::to_string(contract.max_micro_batch));
  }
}

// Saturates above the largest allowed number of samples instead of overflowing.
int64_t product(int64_t a, int64_t b) { return a > kSamplesMax / b ? kSamplesMax + 1 : a * b; }

int64_t largest_divisor(int64_t number, int64_t at_most) {
  if (at_most >= number) return number;
  int64_t largest = 1;
  for (int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    if (small <= at_most) largest = std::max(largest, small);
    if (number / small <= at_most) largest = std::max(largest, number / small);
  }
  return largest;
}

// What the global batch must be a multiple of.
int64_t unit_of(const BatchContract& contract, int64_t world_size) {
  return product(product(world_size, contract.micro_batch.value_or(1)),
                 contract.accumulation_steps.value_or(1));
}

// The plan for this global batch, if there is one.
std::optional<BatchPlan> solve(const BatchContract& contract, int64_t global_batch,
                               int64_t world_size) {
  const int64_t unit = unit_of(contract, world_size);
  if (global_batch < unit || global_batch % unit != 0) return std::nullopt;
  const int64_t each = global_batch / world_size;
  const int64_t limit = contract.max_micro_batch > 0 ? contract.max_micro_batch : each;
  BatchPlan plan{.world_size = world_size, .global_batch = global_batch};
  if (contract.micro_batch) {
    plan.micro_batch = *contract.micro_batch;
  } else if (contract.accumulation_steps) {
    plan.micro_batch = each / *contract.accumulation_steps;
    if (plan.micro_batch > limit) return std::nullopt;
  } else {
    plan.micro_batch = largest_divisor(each, limit);
  }
  plan.accumulation_steps = each / plan.micro_batch;
  if (contract.accumulation_steps && plan.accumulation_steps != *contract.accumulation_steps) {
    return std::nullopt;
  }
  return plan;
}

// The nearest global batch below (step -1) or above (+1) that has a plan; 0: none.
int64_t nearest(const BatchContract& contract, int64_t world_size, int step) {
  const int64_t unit = unit_of(contract, world_size);
  int64_t batch = contract.global_batch / unit * unit + (step > 0 ? unit : 0);
  // If everything is fixed, only one global batch is possible; with a limit on the micro-batch
  // there is a largest one. Either may be far from the wanted one.
  if (contract.micro_batch && contract.accumulation_steps) batch = unit;
  if (contract.accumulation_steps && contract.max_micro_batch > 0) {
    batch = std::min(batch, product(unit, contract.max_micro_batch));
  }
  const bool is_on_side = step < 0 ? batch < contract.global_batch : batch > contract.global_batch;
  return is_on_side && batch >= 1 && batch <= kSamplesMax && solve(contract, batch, world_size)
             ? batch
             : 0;
}

// "2", "2 or 3", "2, 3 or 4".
std::string any_of(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " or " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

std::string ranks_text(int64_t count) {
  return std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

// Up to `most` values near `wanted` for which `works`, in ascending order.
template <typename Works>
std::vector<int64_t> near_values(int64_t wanted, size_t most, Works&& works) {
  constexpr int64_t kReach = 4096;
  std::vector<int64_t> found;
  for (int64_t distance = 1; distance <= kReach && found.size() < most; ++distance) {
    if (wanted - distance >= 1 && works(wanted - distance)) found.push_back(wanted - distance);
    if (found.size() < most && works(wanted + distance)) found.push_back(wanted + distance);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string refusal(const BatchContract& contract, int64_t world_size) {
  std::string text = "global batch " + std::to_string(contract.global_batch) +
                     " cannot be split over " + ranks_text(world_size);
  if (contract.micro_batch) text += " in micro-batches of " + std::to_string(*contract.micro_batch);
  if (contract.accumulation_steps) {
    text += " with " + std::to_string(*contract.accumulation_steps) + " accumulation steps";
    if (contract.max_micro_batch > 0 && !contract.micro_batch) {
      text += " of at most " + std::to_string(contract.max_micro_batch) + " samples";
    }
  }
  std::vector<std::string> ways;
  std::vector<int64_t> batches;
  for (const int step : {-1, 1}) {
    if (const int64_t batch = nearest(contract, world_size, step)) batches.push_back(batch);
  }
  if (!batches.empty()) ways.push_back("a global batch of " + any_of(batches));
  const auto ranks = near_values(world_size, 2, [&](int64_t count) {
    return solve(contract, contract.global_batch, count).has_value();
  });
  if (!ranks.empty()) {
    ways.push_back(any_of(ranks) + (ranks.back() == 1 ? " rank" : " ranks"));
  }
  if (contract.micro_batch) {
    const auto sizes = near_values(*contract.micro_batch, 2, [&](int64_t size) {
      BatchContract other = contract;
      other.micro_batch = size;
      if (contract.max_micro_batch > 0 && size > contract.max_micro_batch) return false;
      return solve(other, contract.global_batch, world_size).has_value();
    });
    if (!sizes.empty()) ways.push_back("a micro_batch of " + any_of(sizes));
  }
  if (contract.accumulation_steps) {
    const auto steps = near_values(*contract.accumulation_steps, 2, [&](int64_t count) {
      BatchContract other = contract;
      other.accumulation_steps = count;
      return solve(other, contract.global_batch, world_size).has_value();
    });
    if (!steps.empty()) ways.push_back(any_of(steps) + " accumulation_steps");
  }
  ways.push_back(
      "keep_global_batch = false with a learning_rate_rule, which lets the global batch change");
  for (size_t i = 0; i < ways.size(); ++i) {
    text += (i == 0 ? ": use " : i + 1 == ways.size() ? ", or " : ", ") + ways[i];
  }
  return text;
}

double learning_rate_factor(const BatchContract& contract, int64_t global_batch) {
  const auto reference =
      static_cast<double>(contract.reference_global_batch.value_or(contract.global_batch));
  const double ratio = static_cast<double>(global_batch) / reference;
  switch (contract.learning_rate_rule) {
    case LearningRateRule::linear:
      return ratio;
    case LearningRateRule::square_root:
      return std::sqrt(ratio);
    case LearningRateRule::none:
      break;
  }
  return 1.0;
}

// The global batch to plan for: the contract's, or the one that scales with the world size.
int64_t wanted_batch(const BatchContract& contract, int64_t world_size) {
  if (contract.keep_global_batch) return contract.global_batch;
  if (contract.micro_batch) return unit_of(contract, world_size);
  if (solve(contract, contract.global_batch, world_size)) return contract.global_batch;
  const int64_t below = nearest(contract, world_size, -1);
  const int64_t above = nearest(contract, world_size, 1);
  if (below == 0 || above == 0) return std::max(below, above);
  return contract.global_batch - below <= above - contract.global_batch ? below : above;
}

}  // namespace

std::string BatchPlan::equation() const {
  return "global batch " + std::to_string(global_batch) + " = " + std::to_string(micro_batch) +
         " micro-batch × " + std::to_string(accumulation_steps) + " accumulation × " +
         ranks_text(world_size);
}

BatchPlan plan_batch(const BatchContract& contract, int64_t world_size) {
  check(contract, world_size);
  const int64_t global_batch = wanted_batch(contract, world_size);
  check_range("the global batch for this world size", global_batch, 1);
  auto plan = solve(contract, global_batch, world_size);
  if (!plan) throw std::invalid_argument("plan_batch: " + refusal(contract, world_size));
  plan->learning_rate_factor = learning_rate_factor(contract, global_batch);
  return *plan;
}

}  // namespace muster
