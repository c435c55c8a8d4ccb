// Modules, loops and optimizers as users write them give the same numbers in every stage as without
// sharding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/rank_launcher.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;  // by way

// The blocks are small: with 0 each is its own unit, as in a large model.
Numbers numbers_of(const std::string& stage, int64_t unit_numel_min = 0) {
  const auto ranks = run_ranks(
      {.argv = {TestBuild("bin/tests/trainer_loop_ranks"), stage, std::to_string(unit_numel_min)},
       .world_size = 2});
  Numbers numbers;
  for (const ChildResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << stage << rank.output;
  std::istringstream lines(ranks[0].output);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::istringstream values(line.substr(colon + 2));
    for (double value = 0; values >> value;) numbers[line.substr(0, colon)].push_back(value);
  }
  return numbers;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1;
  double greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    greatest = std::max(greatest, std::abs(a[i] - b[i]) / std::abs(a[i]));
  }
  return greatest;
}

struct Division {
  const char* stage;
  int64_t unit_numel_min = 0;
};

class EveryWay : public ::testing::TestWithParam<Division> {
 protected:
  static const Numbers& of(const Division& division) {
    static std::map<std::pair<std::string, int64_t>, Numbers> known;
    const auto [at, fresh] = known.try_emplace({division.stage, division.unit_numel_min});
    if (fresh) at->second = numbers_of(division.stage, division.unit_numel_min);
    return at->second;
  }
  static const Numbers& whole() { return of({"none"}); }
};

TEST_P(EveryWay, GivesTheNumbersOfAWholeModel) {
  const Numbers& sharded = of(GetParam());
  EXPECT_GE(whole().size(), 30u);
  EXPECT_EQ(sharded.size(), whole().size());
  for (const auto& [way, values] : whole()) {
    ASSERT_TRUE(sharded.contains(way)) << way;
    EXPECT_LE(difference(values, sharded.at(way)), 2e-6) << way;
  }
}

TEST_P(EveryWay, KeepsNaNInNorms) {
  const Numbers& numbers = of(GetParam());
  for (const char* norm : {"norm inf", "norm 2.000000", "norm 1.000000"}) {
    for (const char* broken : {"first", "second"}) {
      const std::string way = std::string(norm) + ", NaN in " + broken;
      ASSERT_TRUE(numbers.contains(way)) << way;
      EXPECT_EQ(numbers.at(way), (std::vector<double>{-7, -7})) << way;
    }
  }
  EXPECT_EQ(numbers.at("norm inf, NaN in none"), (std::vector<double>{70, 70}));
}

INSTANTIATE_TEST_SUITE_P(Stages, EveryWay,
                         ::testing::Values(Division{"zero1"}, Division{"zero2"}, Division{"zero3"},
                                           Division{"zero3", 131'072}),
                         [](const auto& info) {
                           return std::string(info.param.stage) +
                                  (info.param.unit_numel_min > 0 ? "_merged" : "");
                         });

}  // namespace
}  // namespace muster
