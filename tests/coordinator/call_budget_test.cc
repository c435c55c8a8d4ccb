#include "coordinator/contexts/call_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/problem.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

using Hold = CallBudget::Hold;
using common::Cost;

TEST(CallBudget, ACallerThatHasItsShareOfStreamsIsRefusedAndAnotherIsNot) {
  CallBudget budget({.all = 100, .of_one = 40, .waiting_of_one = 0});
  std::vector<Hold> held;
  for (int i = 0; i < 4; ++i) held.push_back(*budget.Take("user:greedy", 10));
  const absl::StatusOr<Hold> over = budget.Take("user:greedy", 10);
  EXPECT_EQ(over.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(common::CodeOf(over.status()), "JC1308");
  EXPECT_TRUE(budget.Take("user:other", 10).ok());
  held.pop_back();
  EXPECT_TRUE(budget.Take("user:greedy", 10).ok());
}

TEST(CallBudget, ManyGreedyCallersLeaveSomethingForTheNext) {
  CallBudget budget({.all = 100, .of_one = 40, .waiting_of_one = 0});
  std::vector<Hold> held;
  for (const char* caller : {"a", "b", "c", "d"}) {
    while (true) {
      absl::StatusOr<Hold> hold = budget.Take(caller, 1);
      if (!hold.ok()) break;
      held.push_back(*std::move(hold));
    }
  }
  EXPECT_TRUE(budget.Take("e", 1).ok());
}

TEST(CallBudget, CallsWaitForTheirCallersOthersAndThenRunInOrder) {
  CallBudget budget({.all = 100, .of_one = 10, .waiting_of_one = 1 << 20});
  std::vector<Hold> running;
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    budget.Begin("user:alice", 10, 0, [&, i](absl::StatusOr<Hold> hold) {
      ASSERT_TRUE(hold.ok());
      order.push_back(i);
      running.push_back(*std::move(hold));
    });
  }
  EXPECT_EQ(order, (std::vector<int>{0}));
  std::vector<Hold> ended;
  ended.swap(running);
  ended.clear();
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
  ended.swap(running);
  ended.clear();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(CallBudget, WhatWaitsIsBoundedAndTheRestRefused) {
  CallBudget budget({.all = 100, .of_one = 10, .waiting_of_one = 10'000});
  const Hold held = *budget.Take("user:alice", 10);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    budget.Begin("user:alice", 10, 1'000,
                 [&](const absl::StatusOr<Hold>& hold) { refused += hold.ok() ? 0 : 1; });
  }
  EXPECT_EQ(refused, 96) << "four of 1,000 bytes each, with what each costs to keep";
}

TEST(CallBudget, ThousandsThatAreAnsweredAtOnceDoNotNest) {
  CallBudget budget({.all = 100, .of_one = 10, .waiting_of_one = 1 << 30});
  Hold held = *budget.Take("user:alice", 10);
  int ran = 0;
  // Each ends within its `run`, where the next one begins.
  for (int i = 0; i < 100'000; ++i) {
    budget.Begin("user:alice", 10, 0, [&](const absl::StatusOr<Hold>&) { ++ran; });
  }
  held = nullptr;
  EXPECT_EQ(ran, 100'000);
  EXPECT_EQ(budget.Bytes(), 0u);
}

TEST(CallBudget, ASearchCostsMoreThanReading) {
  v1::StreamLogsRequest request;
  EXPECT_EQ(CostOf(Cost::kStream, request), Cost::kStream);
  request.mutable_filter()->set_grep("loss");
  EXPECT_EQ(CostOf(Cost::kStream, request), Cost::kSearch);
}

}  // namespace
}  // namespace muster::coordinator
