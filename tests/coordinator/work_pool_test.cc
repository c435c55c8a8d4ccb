#include "coordinator/base/work_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace muster::coordinator {
namespace {

TEST(WorkPool, WhatWasDelayedIsGoneWhenThePoolHasStopped) {
  WorkPool pool(1);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  // Its end may post again, as that of an unanswered call does.
  std::shared_ptr<int> last(held.get(), [&pool, held](int*) { pool.Post([] {}); });
  pool.PostAfter(std::chrono::hours(1), [keeps = last] {});
  held = nullptr;
  last = nullptr;
  EXPECT_FALSE(seen.expired());
  pool.Stop();
  EXPECT_TRUE(seen.expired());
}

TEST(WorkPool, WhoPostsAThousandHasOneTurnForEachOfAnother) {
  WorkPool pool(1);
  std::promise<void> begin;
  std::vector<std::string> order;
  pool.Post([&] { begin.get_future().wait(); });
  for (int i = 0; i < 1'000; ++i) pool.Post([&] { order.push_back("greedy"); }, "greedy");
  for (int i = 0; i < 3; ++i) pool.Post([&] { order.push_back("other"); }, "other");
  for (int i = 0; i < 3; ++i) pool.Post([&] { order.push_back("own"); });
  begin.set_value();
  pool.Stop();
  ASSERT_EQ(order.size(), 1'006u);
  const auto last = [&](const std::string& who) {
    return std::find(order.rbegin(), order.rend(), who).base() - order.begin();
  };
  EXPECT_LE(last("own"), 7) << "the daemon's own work has every other turn";
  EXPECT_LE(last("other"), 10);
}

TEST(WorkPool, NobodyHasAllThreads) {
  WorkPool pool(2);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  for (int i = 0; i < 4; ++i) pool.Post([released] { released.wait(); }, "greedy");
  std::promise<void> ran;
  pool.Post([&] { ran.set_value(); }, "other");
  ran.get_future().wait();  // never, if the greedy one had both
  release.set_value();
}

TEST(WorkPool, TheWorkOfOneOwnerBeginsInOrder) {
  WorkPool pool(2);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) pool.Post([&order, i] { order.push_back(i); }, "alice");
  pool.Stop();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

}  // namespace
}  // namespace muster::coordinator
