// Which refusals the audit records when there are many.
#include "coordinator/audit/refusal_budget.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::coordinator {
namespace {

constexpr RefusalBudget::Rates kFew{.each = {.at_once = 2, .per_second = 1},
                                    .all = {.at_once = 5, .per_second = 2}};

int Recorded(RefusalBudget& budget, const std::string& who, int asked, int64_t now_ms) {
  int recorded = 0;
  for (int i = 0; i < asked; ++i) recorded += budget.Take(who, now_ms).has_value() ? 1 : 0;
  return recorded;
}

TEST(RefusalBudgetTest, EachHasItsOwnShareThatRefills) {
  RefusalBudget budget(kFew);
  EXPECT_EQ(Recorded(budget, "user:eve", 100, 0), 2);
  EXPECT_EQ(Recorded(budget, "user:bob", 1, 0), 1);
  EXPECT_EQ(Recorded(budget, "user:eve", 100, 500), 0);
  EXPECT_EQ(Recorded(budget, "user:eve", 100, 1'000), 1);
  EXPECT_EQ(Recorded(budget, "user:eve", 100, 3'600'000), 2);
}

TEST(RefusalBudgetTest, AllTogetherHaveACeiling) {
  RefusalBudget budget(kFew);
  int recorded = 0;
  for (int i = 0; i < 50; ++i) recorded += Recorded(budget, "user:" + std::to_string(i), 1, 0);
  EXPECT_EQ(recorded, 5);
}

TEST(RefusalBudgetTest, WhatWasLeftOutIsToldOnceAndByWhom) {
  RefusalBudget budget(kFew);
  Recorded(budget, "user:eve", 9, 0);
  Recorded(budget, "user:bob", 3, 0);  // two of his own, and one that tells of eve's seven
  Recorded(budget, "user:eve", 1, 0);
  const auto told = budget.Take("user:eve", 1'000);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->own, 1u);
  EXPECT_EQ(told->of_others, 1u);
  const auto next = budget.Take("user:bob", 1'000);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->own + next->of_others, 0u);
}

TEST(RefusalBudgetTest, ThoseWhoAreForgottenAreStillCounted) {
  RefusalBudget budget(
      {.each = {.at_once = 1, .per_second = 1}, .all = {.at_once = 1'000'000, .per_second = 1}});
  Recorded(budget, "user:eve", 4, 0);
  for (size_t i = 0; i < RefusalBudget::kRememberedMax; ++i)
    budget.LeaveOut("user:" + std::to_string(i), 1);
  EXPECT_EQ(Recorded(budget, "user:eve", 1, 1), 1) << "forgotten, and starts over";
  Recorded(budget, "user:eve", 2, 1);
  const auto told = budget.Take("user:bob", 2);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->own, 0u);
  EXPECT_EQ(told->of_others, 2u) << "eve's entry told the rest";
}

std::string PartyOf(const std::string& who, const std::string& from) {
  v1::AuditEntry entry;
  entry.set_who(who);
  entry.set_from(from);
  const RefusedParty party = RefusedPartyOf(entry);
  return (party.is_stranger ? "stranger " : "") + party.name;
}

TEST(RefusalBudgetTest, MembersCountByNameAndStrangersByNetwork) {
  EXPECT_EQ(PartyOf("user:alice", "10.0.0.7:41180"), "user:alice");
  EXPECT_EQ(PartyOf("worker:node1", "10.0.0.7:41180"), "worker:node1");
  EXPECT_EQ(PartyOf("uid:1000", "unix"), "uid:1000");
  EXPECT_EQ(PartyOf("peer:10.0.0.7", "10.0.0.7:41180"), "stranger peer:10.0.0.7");
  EXPECT_EQ(PartyOf("token:7", "peer:10.0.0.7"), "stranger peer:10.0.0.7");
  EXPECT_EQ(PartyOf("certificate", "peer:[2001:db8::1]"), "stranger peer:[2001:db8::]/64");
  EXPECT_EQ(PartyOf("certificate", "[2001:db8::ffff:2]:41180"), "stranger peer:[2001:db8::]/64");
  EXPECT_EQ(PartyOf("token", "peer:[::ffff:10.0.0.7]"), "stranger peer:[::ffff:10.0.0.7]");
  EXPECT_EQ(PartyOf("token", ""), "stranger peer:token");
  EXPECT_EQ(PartyOf("token", "peer:" + std::string(5'000, 'x')).size(), 9u + 128u);
}

}  // namespace
}  // namespace muster::coordinator
