// Ranks that call different collectives, or continue after a failed one, get an error: no crash, no
// hang on one machine, and never a sum of unrelated values.
#include <gtest/gtest.h>

#include "parallel/rank_output.h"

namespace muster {
namespace {

constexpr const char* kFix = "all ranks must make the same calls in the same order";

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
  }
}

// What the last rank calls and what the others call, as shown in the error.
const std::map<std::string, std::pair<std::string, std::string>>& told() {
  static const std::map<std::string, std::pair<std::string, std::string>> all = {
      {"gradients", {"all_reduce sum of 50826 float32", "reduce(sum; 1 tensor: float32 [1])"}},
      {"operation", {"all_reduce sum of 100 float32", "all_reduce max of 100 float32"}},
      {"dtype", {"all_reduce sum of 100 float32", "all_reduce sum of 100 int32"}},
      {"size", {"all_reduce sum of 100 float32", "all_reduce sum of 101 float32"}},
      {"large_size", {"all_reduce sum of 1200000 float32", "all_reduce sum of 1201000 float32"}},
      {"large_and_small", {"all_reduce sum of 1200000 float32", "all_reduce sum of 100 float32"}},
      {"root", {"broadcast from 0 of 100 float32", "broadcast from 1 of 100 float32"}},
      {"kind", {"all_reduce sum of 100 float32", "broadcast from 0 of 100 float32"}},
      {"barrier", {"all_reduce sum of 1200000 float32", "barrier"}},
      {"sizes", {"all_gather of 1 int64", "all_reduce sum of 1 int64"}},
      {"objects", {"gather_object()", "all_reduce sum of 1200000 float32"}},
      {"object_and_strings", {"broadcast_object(from 0)", "all_gather of 1 int64"}},
      {"under_way", {"all_reduce sum of 1200000 float32", "broadcast from 0 of 1200000 float32"}}};
  return all;
}

class OnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, OnRanks, ::testing::Values(2, 3));

TEST_P(OnRanks, DifferentCallsEndWithWhatEachRankCalls) {
  const int last = GetParam() - 1;
  // They must not end by the timeout.
  auto ranks = outcome(GetParam(), {"mismatches", "memory", "600000"});
  for (auto& rank : ranks) {
    for (const auto& [name, calls] : told()) {
      // Over sockets, the root of a broadcast need not wait for the others: its next call reports
      // it.
      const bool is_done = name == "root" && rank[name] == "no error";
      const std::string text = rank[name + (is_done ? "_next" : "")];
      EXPECT_EQ(text.find("CommunicationError "), 0u) << name << ": " << text;
      expect_parts(text, {"the ranks call different collectives as number ", " of the group '",
                          "rank " + std::to_string(last) + ": ", calls.second, kFix});
      // That call is then the first of this rank to fail, or comes after the others' have.
      if (is_done) continue;
      expect_parts(rank[name + "_next"], {"CommunicationError all_reduce sum of 10 float32 "
                                          "rejected: the group '",
                                          "has failed", calls.second});
    }
  }
  // The rank that arrives second knows both calls; with two ranks, both get the same error.
  if (GetParam() > 2) return;
  for (const auto& [name, calls] : told()) {
    EXPECT_EQ(ranks[0][name], ranks[1][name]);
    expect_parts(ranks[0][name], {"rank 0: ", calls.first});
  }
}

TEST_P(OnRanks, AReductionOfOneRankIsNamedWithTheGradientsOfTheOthers) {
  for (auto& rank : outcome(GetParam(), {"lonely_reduce"})) {
    expect_parts(rank["error"], {"CommunicationError ", "the ranks call different collectives",
                                 "rank 0: reduce(mean; 1 tensor: float32 [1]): all_reduce sum of ",
                                 "float32", kFix});
  }
}

// Calls are not compared, but they do not match either: the timeout ends them.
TEST(RanksWithoutCommonMemory, NeverMixDifferentCalls) {
  std::vector<std::string> how = {"mismatches", "no_memory", "700"};
  for (const char* pair : {"gradients", "size", "large size", "dtype"}) how.push_back(pair);
  for (auto& rank : outcome(3, how)) {
    for (const char* name : {"gradients", "size", "large_size", "dtype"}) {
      EXPECT_EQ(rank[name].find("CommunicationError "), 0u) << name << ": " << rank[name];
      EXPECT_EQ(rank[name].find("wrong sum"), std::string::npos) << rank[name];
      expect_parts(rank[std::string(name) + "_next"], {"CommunicationError ", "rejected"});
    }
  }
}

TEST(AGroupThatTimedOut, RefusesFurtherCallsWithTheFirstFailure) {
  for (const std::string memory : {"memory", "no_memory"}) {
    auto ranks = outcome(2, {"after_a_timeout", memory});
    expect_parts(ranks[0]["first"], {"CommunicationError rank 0, all_reduce sum of 100 float32: "});
    if (memory == "memory") {
      expect_parts(ranks[0]["first"], {"rank 0 waits for rank 1", "Timed out after 300 ms"});
    }
    const std::string first = ranks[0]["first"].substr(std::string("CommunicationError ").size());
    for (const char* name : {"second", "third"}) {
      expect_parts(ranks[0][name],
                   {"CommunicationError all_reduce sum of 100 float32 rejected: the group 'late' "
                    "has failed",
                    first});
    }
    // The late rank gets the error as well.
    if (memory == "memory") expect_parts(ranks[1]["second"], {"rejected", first});
    expect_parts(ranks[1]["second"], {"CommunicationError "});
    expect_parts(ranks[1]["third"], {"CommunicationError ", "rejected"});
  }
}

}  // namespace
}  // namespace muster
