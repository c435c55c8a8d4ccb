// Webhooks of many owners: whose is called next, and whose is given up when too many wait.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/text/strings.h"
#include "coordinator/notify/backlog.h"
#include "coordinator/notify/post_turns.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

PostTurns::Post PostOf(const std::string& owner, const std::string& host, uint64_t job = 1) {
  PostTurns::Post post{.delivery = {.job = job}, .owner = owner, .call = {}};
  post.call.url.host = host;
  post.call.url.port = 80;
  return post;
}

// Begins all that may begin, and ends none: receivers that stay silent. By owner.
std::map<std::string, size_t> BeginAll(PostTurns& turns) {
  std::map<std::string, size_t> begun;
  while (const auto post = turns.Next()) ++begun[post->owner];
  return begun;
}

TEST(PostTurns, SilentReceiversOfOneOwnerLeaveThreadsToTheOthers) {
  PostTurns turns;
  for (int i = 0; i < 24; ++i) turns.Add(PostOf("greedy", StrCat("silent", i)));
  EXPECT_EQ(BeginAll(turns)["greedy"], PostTurns::kOfOwner);
  turns.Add(PostOf("other", "fine"));
  EXPECT_EQ(BeginAll(turns)["other"], 1u);
  for (int owner = 0; owner < 3; ++owner) {
    for (int i = 0; i < 24; ++i) turns.Add(PostOf(StrCat("greedy", owner), StrCat("mute", i)));
  }
  BeginAll(turns);
  turns.Add(PostOf("late", "fine too"));
  EXPECT_EQ(BeginAll(turns)["late"], 1u) << "several of them leave some, too";
}

TEST(PostTurns, ASilentReceiverDelaysNoOtherOfItsOwner) {
  PostTurns turns;
  for (uint64_t i = 0; i < 10; ++i) turns.Add(PostOf("alice", "silent", i));
  turns.Add(PostOf("alice", "fine", 10));
  std::set<std::string> called;
  while (const auto post = turns.Next()) called.insert(post->call.url.host);
  EXPECT_EQ(called, (std::set<std::string>{"silent", "fine"}));
}

TEST(PostTurns, ManyOwnersOfOneSilentReceiverLeaveThreadsForOtherReceivers) {
  PostTurns turns;
  for (int i = 0; i < 20; ++i) turns.Add(PostOf(StrCat("owner", i), "silent"));
  EXPECT_EQ(BeginAll(turns).size(), PostTurns::kToReceiver);
  turns.Add(PostOf("owner0", "fine"));
  turns.Add(PostOf("other", "fine"));
  EXPECT_EQ(BeginAll(turns)["other"], 1u);
}

TEST(PostTurns, OwnersTakeTurnsAndEachKeepsItsOrder) {
  PostTurns turns;
  for (uint64_t i = 0; i < 3; ++i) turns.Add(PostOf("alice", "a", i));
  for (uint64_t i = 10; i < 13; ++i) turns.Add(PostOf("bob", "b", i));
  std::vector<uint64_t> order;
  while (const auto post = turns.Next()) {
    order.push_back(post->delivery.job);
    turns.End(post->owner, post->Receiver());
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 10, 1, 11, 2, 12}));
  EXPECT_FALSE(turns.Next().has_value());
}

TEST(Backlog, WhoHasMostGivesItsNewestUpForAnother) {
  Backlog backlog(4);
  for (uint64_t job = 1; job <= 4; ++job) EXPECT_TRUE(backlog.Add({.job = job}, "greedy", 0));
  EXPECT_FALSE(backlog.FindExcess().has_value()) << "one owner may have all";
  EXPECT_FALSE(backlog.Add({.job = 4}, "greedy", 0)) << "it is there";
  backlog.Find({.job = 4})->is_posting = true;
  backlog.Find({.job = 3})->asked = 1;
  backlog.Add({.job = 9}, "other", 0);
  const auto excess = backlog.FindExcess();
  ASSERT_TRUE(excess.has_value());
  EXPECT_EQ(excess->owner, "greedy");
  EXPECT_EQ(excess->of_owner, 4u);
  EXPECT_EQ(excess->delivery.job, 2u) << "not what is being called, nor what may be running";
  EXPECT_TRUE(backlog.MarkReported(excess->delivery));
  EXPECT_FALSE(backlog.FindExcess().has_value());
  EXPECT_EQ(backlog.Reported(), 1u);
  EXPECT_NE(backlog.Find({.job = 2}), nullptr) << "until its event is durable";
  backlog.Erase({.job = 2});
  EXPECT_EQ(backlog.all().size(), 4u);
  EXPECT_EQ(backlog.Reported(), 0u);
}

TEST(Backlog, WhatBelongsToAnUnknownOwnerIsItsOwnersOnceThatIsKnown) {
  Backlog backlog(3);
  for (uint64_t job = 1; job <= 3; ++job) backlog.Add({.job = job}, "", 0);
  backlog.SetOwner({.job = 3}, "alice");
  backlog.SetOwner({.job = 2}, "alice");
  backlog.SetOwner({.job = 7}, "nobody");
  backlog.Add({.job = 8}, "bob", 0);
  EXPECT_EQ(backlog.FindExcess()->delivery.job, 3u);
}

}  // namespace
}  // namespace muster::coordinator
