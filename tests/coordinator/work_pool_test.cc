#include "coordinator/work_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

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

}  // namespace
}  // namespace muster::coordinator
