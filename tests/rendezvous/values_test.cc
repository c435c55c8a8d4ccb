#include "rendezvous/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace muster::rendezvous {
namespace {

// Values with requests in one line.
class StoredValues : public ::testing::Test {
 protected:
  std::string Do(Op op, std::string_view key, std::string_view value = {},
                 std::string_view expected = {}) {
    Request request;
    request.op = op;
    request.key = key;
    request.value = value;
    request.expected = expected;
    std::string answer;
    is_fine_ = values_.Execute(request, &answer);
    return answer;
  }
  std::string Text(Op op, std::string_view key, std::string_view value = {},
                   std::string_view expected = {}) {
    const std::string answer = Do(op, key, value, expected);
    return answer.size() < 8 ? "not a text" : answer.substr(8);
  }
  int64_t Number(Op op, std::string_view key) { return NumberOf(Do(op, key)); }
  int64_t Add(std::string_view key, int64_t amount) {
    Request request;
    request.op = Op::kAdd;
    request.key = key;
    request.number = amount;
    std::string answer;
    is_fine_ = values_.Execute(request, &answer);
    return is_fine_ ? NumberOf(answer) : -1;
  }
  bool Check(const std::vector<std::string_view>& keys) {
    Request request;
    request.op = Op::kCheck;
    request.keys = keys;
    std::string answer;
    values_.Execute(request, &answer);
    return answer == std::string(1, kAllThere);
  }
  void Set(std::string_view key, std::string_view value = "value") { Do(Op::kSet, key, value); }
  std::vector<Waiter> Ready() { return values_.TakeEffects().ready; }

  static int64_t NumberOf(const std::string& answer) {
    int64_t number = 0;
    if (answer.size() >= sizeof number)
      std::copy_n(answer.data(), sizeof number, reinterpret_cast<char*>(&number));
    return number;
  }

  Values values_{64 << 10};
  bool is_fine_ = true;
};

using Links = std::vector<std::pair<LinkId, std::string>>;
using Waiters = std::vector<Waiter>;
constexpr auto kPassed = Values::Waiting::kPassed;
constexpr auto kRecorded = Values::Waiting::kRecorded;

TEST_F(StoredValues, WhatIsSetIsThereUntilItIsDeleted) {
  EXPECT_FALSE(Check({"a"}));
  Set("a", "1");
  Set("b", "2");
  EXPECT_EQ(Text(Op::kGet, "a"), "1");
  EXPECT_TRUE(Check({"a", "b"}));
  EXPECT_FALSE(Check({"a", "c"}));
  EXPECT_TRUE(Check({}));
  EXPECT_EQ(Number(Op::kCount, ""), 2);
  EXPECT_EQ(Number(Op::kDelete, "a"), 1);
  EXPECT_EQ(Number(Op::kDelete, "a"), 0);
  EXPECT_EQ(Text(Op::kGet, "a"), "");
  EXPECT_EQ(Number(Op::kList, ""), 1);
}

TEST_F(StoredValues, CompareSetChangesOnlyTheExpectedValue) {
  EXPECT_EQ(Text(Op::kCompareSet, "a", "new", "other"), "other");
  EXPECT_FALSE(Check({"a"}));
  EXPECT_EQ(Text(Op::kCompareSet, "a", "first", ""), "first");
  EXPECT_EQ(Text(Op::kCompareSet, "a", "second", "wrong"), "first");
  EXPECT_EQ(Text(Op::kCompareSet, "a", "second", "first"), "second");
}

TEST_F(StoredValues, AddCountsInDecimalTextAndRefusesWhatIsNotANumberOrTooLarge) {
  EXPECT_EQ(Add("n", 5), 5);
  EXPECT_EQ(Add("n", -7), -2);
  EXPECT_EQ(Text(Op::kGet, "n"), "-2");
  Set("text", "abc");
  EXPECT_EQ(Add("text", 1), -1);
  EXPECT_FALSE(is_fine_);
  Set("large", "9223372036854775807");
  EXPECT_EQ(Add("large", 1), -1);
  EXPECT_FALSE(is_fine_);
  EXPECT_EQ(Text(Op::kGet, "large"), "9223372036854775807");
}

TEST_F(StoredValues, AppendAppendsAlsoToWhatIsNotThere) {
  Do(Op::kAppend, "a", "one");
  Do(Op::kAppend, "a", " two");
  EXPECT_EQ(Text(Op::kGet, "a"), "one two");
}

TEST_F(StoredValues, AQueueIsThereWhileItHasItems) {
  EXPECT_EQ(Number(Op::kPop, "q"), 0);
  Do(Op::kPush, "q", "1");
  Do(Op::kPush, "q", "2");
  EXPECT_TRUE(Check({"q"}));
  EXPECT_TRUE(values_.IsQueue("q"));
  EXPECT_EQ(Number(Op::kLength, "q"), 2);
  EXPECT_EQ(Number(Op::kCount, ""), 0);
  const std::string popped = Do(Op::kPop, "q");
  EXPECT_EQ(NumberOf(popped), 2);
  EXPECT_EQ(popped.substr(16), "1");
  EXPECT_EQ(Do(Op::kPop, "q").substr(16), "2");
  EXPECT_FALSE(Check({"q"}));
}

TEST_F(StoredValues, AWaitIsOverWhenTheLastOfItsKeysIsThere) {
  Set("a");
  EXPECT_EQ(values_.Wait(1, {"a"}), kPassed);
  EXPECT_EQ(values_.Wait(1, {}), kPassed);
  EXPECT_EQ(values_.Wait(1, {"a", "b", "c"}), kRecorded);
  EXPECT_EQ(values_.Wait(2, {"b", "b"}), kRecorded);
  Set("b");
  EXPECT_EQ(Ready(), (Waiters{2}));
  Add("c", 1);
  EXPECT_EQ(Ready(), (Waiters{1}));
  Set("c");
  EXPECT_FALSE(values_.HasEffects());
}

TEST_F(StoredValues, EveryOperationThatMakesAKeyWakes) {
  const auto wakes = [&](std::string_view key, const auto& make) {
    EXPECT_EQ(values_.Wait(1, {key}), kRecorded);
    make();
    EXPECT_EQ(Ready(), (Waiters{1})) << key;
  };
  wakes("set", [&] { Set("set"); });
  wakes("add", [&] { Add("add", 1); });
  wakes("append", [&] { Do(Op::kAppend, "append", "x"); });
  wakes("compare", [&] { Do(Op::kCompareSet, "compare", "x", ""); });
  wakes("push", [&] { Do(Op::kPush, "push", "x"); });
  wakes("multi", [&] {
    Request request;
    request.op = Op::kMultiSet;
    request.keys = {"other", "multi"};
    request.values = {"1", "2"};
    std::string answer;
    EXPECT_TRUE(values_.Execute(request, &answer));
  });
  wakes("barrier", [&] {
    bool ok = false;
    values_.Arrive("barrier", 2, 1, &ok);
  });
}

TEST_F(StoredValues, AWaitThatWasGivenUpIsNotReported) {
  values_.Wait(1, {"a"});
  values_.StopWaiting(1);
  values_.Wait(2, {"a"});
  values_.Wait(1, {"b"});
  Set("a");
  EXPECT_EQ(Ready(), (Waiters{2}));
  Set("b");
  EXPECT_EQ(Ready(), (Waiters{1}));
}

TEST(Waits, WhatIsOverDoesNotFillTheMemory) {
  Values values(4 << 20);
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_EQ(values.Wait(1, {"key " + std::to_string(i)}), kRecorded) << i;
    values.StopWaiting(1);
  }
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_EQ(values.Wait(1, {"one key"}), kRecorded) << i;
    values.StopWaiting(1);
  }
}

TEST_F(StoredValues, AnItemOfAQueueWakesOneInTheOrderOfTheirWaits) {
  for (Waiter waiter = 1; waiter <= 3; ++waiter) values_.Wait(waiter, {"q"});
  values_.StopWaiting(1);
  Do(Op::kPush, "q", "x");
  EXPECT_EQ(Ready(), (Waiters{2}));
  Do(Op::kPush, "q", "y");
  EXPECT_EQ(Ready(), (Waiters{3}));
  Do(Op::kPush, "q", "z");
  EXPECT_FALSE(values_.HasEffects());
}

TEST_F(StoredValues, AnItemOfAQueueIsToldToOneNode) {
  EXPECT_FALSE(values_.Watch(1, "q"));
  EXPECT_FALSE(values_.Watch(2, "q"));
  Do(Op::kPush, "q", "x");
  EXPECT_EQ(values_.TakeEffects().there, (Links{{1, "q"}}));
  // Others of node 1 still wait: the item is promised, so it is not told of twice.
  EXPECT_FALSE(values_.WatchOn(1, "q"));
  Do(Op::kPush, "q", "y");
  EXPECT_EQ(values_.TakeEffects().there, (Links{{2, "q"}}));
  Do(Op::kPop, "q");
  Do(Op::kPush, "q", "z");
  EXPECT_EQ(values_.TakeEffects().there, (Links{{1, "q"}}));
}

TEST_F(StoredValues, AnItemThatWasPushedBetweenTwoWatchesOfANodeIsNotMissed) {
  values_.Watch(1, "q");
  Do(Op::kPush, "q", "x");
  Do(Op::kPush, "q", "y");
  EXPECT_TRUE(values_.WatchOn(1, "q"));
  EXPECT_FALSE(values_.WatchOn(1, "q"));
}

TEST_F(StoredValues, AnItemThatANodeDeclinesIsToldToAnother) {
  values_.Watch(1, "q");
  values_.Watch(2, "q");
  Do(Op::kPush, "q", "x");
  values_.TakeEffects();
  values_.Decline("q");
  EXPECT_EQ(values_.TakeEffects().there, (Links{{2, "q"}}));
  values_.Decline("q");
  EXPECT_FALSE(values_.HasEffects());
  EXPECT_TRUE(values_.WatchOn(1, "q"));
}

TEST_F(StoredValues, ABarrierIsCompleteWithItsLastArrival) {
  bool ok = false;
  EXPECT_FALSE(values_.Arrive("b", 4, 1, &ok));
  values_.AwaitBarrier(Waiter{1}, "b");
  EXPECT_FALSE(values_.Arrive("b", 4, 2, &ok));
  values_.AwaitBarrier(LinkId{7}, "b");
  EXPECT_FALSE(values_.HasEffects());
  EXPECT_TRUE(values_.Arrive("b", 4, 1, &ok));
  EXPECT_TRUE(ok);
  const Values::Effects effects = values_.TakeEffects();
  EXPECT_EQ(effects.ready, (Waiters{1}));
  EXPECT_EQ(effects.passed, (Links{{7, "b"}}));
  Set("text", "abc");
  EXPECT_FALSE(values_.Arrive("text", 1, 1, &ok));
  EXPECT_FALSE(ok);
}

TEST_F(StoredValues, OneThatLeavesABarrierIsNotReportedButCounts) {
  bool ok = false;
  values_.Arrive("b", 2, 1, &ok);
  values_.AwaitBarrier(Waiter{1}, "b");
  values_.StopWaiting(1);
  EXPECT_TRUE(values_.Arrive("b", 2, 1, &ok));
  EXPECT_FALSE(values_.HasEffects());
}

TEST_F(StoredValues, BytesAreLimitedAndGivenBack) {
  const std::string large(40 << 10, 'x');
  Set("a", large);
  EXPECT_TRUE(is_fine_);
  Set("b", large);
  EXPECT_FALSE(is_fine_);
  EXPECT_EQ(values_.Why(), "the ranks have stored 41 KB, and may store 66 KB");
  Do(Op::kPush, "q", large);
  EXPECT_FALSE(is_fine_);
  Do(Op::kAppend, "a", large);
  EXPECT_FALSE(is_fine_);
  EXPECT_FALSE(Check({"b"}));
  Set("a", "small");
  Set("b", large);
  EXPECT_TRUE(is_fine_);
  Do(Op::kDelete, "b");
  for (int i = 0; i < 10; ++i) {
    Do(Op::kPush, "q", large);
    EXPECT_TRUE(is_fine_);
    Do(Op::kPop, "q");
  }
}

TEST_F(StoredValues, ManyKeysThatAreWaitedForAreLimited) {
  auto waiting = kRecorded;
  for (Waiter waiter = 1; waiter < 10'000 && waiting == kRecorded; ++waiter) {
    waiting = values_.Wait(waiter, {"key " + std::to_string(waiter)});
  }
  EXPECT_EQ(waiting, Values::Waiting::kRefused);
}

TEST_F(StoredValues, ANodeIsToldOnceThatAKeyIsThere) {
  EXPECT_FALSE(values_.Watch(1, "a"));
  EXPECT_FALSE(values_.Watch(1, "a"));
  EXPECT_FALSE(values_.Watch(2, "a"));
  EXPECT_FALSE(values_.Watch(3, "a"));
  values_.StopWatching(3, "a");
  values_.Forget(2);
  Set("a");
  EXPECT_EQ(values_.TakeEffects().there, (Links{{1, "a"}}));
  EXPECT_TRUE(values_.Watch(1, "a"));
}

TEST_F(StoredValues, AValueThatWasSetOnceMayBeHeldUntilItChanges) {
  Set("a");
  EXPECT_TRUE(values_.MayBeHeld("a"));
  values_.Hold(1, "a");
  values_.Hold(1, "a");
  values_.Hold(2, "a");
  values_.Forget(2);
  Set("a", "changed");
  EXPECT_EQ(values_.TakeEffects().outdated, (Links{{1, "a"}}));
  EXPECT_FALSE(values_.MayBeHeld("a"));
  Add("n", 1);
  EXPECT_FALSE(values_.MayBeHeld("n")) << "a count changes";
  Set("b");
  values_.Hold(3, "b");
  Do(Op::kDelete, "b");
  EXPECT_EQ(values_.TakeEffects().outdated, (Links{{3, "b"}}));
}

}  // namespace
}  // namespace muster::rendezvous
