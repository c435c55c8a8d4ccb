// What a full map forgets, by entries and by weight.
#include "common/base/lru_map.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace muster::common {
namespace {

using Letters = LruMap<int, std::string>;

std::string All(Letters& map) {
  std::string all;
  map.ForEach([&](int, const std::string& letter) { all += letter; });
  return all;
}

TEST(LruMapTest, WhatWasUsedLeastRecentlyGoesOneAtATime) {
  Letters map(3);
  map.Put(1, "a");
  map.Put(2, "b");
  map.Put(3, "c");
  ASSERT_NE(map.Find(1), nullptr);  // a use
  EXPECT_NE(map.Peek(2), nullptr);  // none
  map.Put(4, "d");
  EXPECT_EQ(All(map), "acd");
  map.Put(3, "C");
  map.Put(5, "e");
  EXPECT_EQ(All(map), "Cde");
}

TEST(LruMapTest, WeightCountsAndTheOneUsedLastStaysWhateverItWeighs) {
  Letters map(Letters::kNoLimit, 10);
  map.Put(1, "a", 4);
  map.Put(2, "b", 4);
  map.Put(3, "c", 4);
  EXPECT_EQ(All(map), "bc");
  EXPECT_EQ(map.weight(), 8u);
  map.SetWeight(2, 1);
  map.Put(4, "d", 5);
  EXPECT_EQ(All(map), "bcd");
  map.Put(5, "e", 100);
  EXPECT_EQ(All(map), "e");
  EXPECT_EQ(map.weight(), 100u);
  map.Put(5, "f", 1);
  EXPECT_EQ(map.weight(), 1u);
}

TEST(LruMapTest, WhatIsErasedWeighsNothing) {
  LruMap<std::pair<int, int>, int> map(10, 100);
  for (int job = 1; job <= 3; ++job) {
    for (int attempt = 0; attempt < 2; ++attempt) map.Put({job, attempt}, job, 10);
  }
  map.EraseRange({2, 0}, {2, 9});
  EXPECT_EQ(map.size(), 4u);
  EXPECT_EQ(map.weight(), 40u);
  EXPECT_EQ(map.Find(std::pair(2, 1)), nullptr);
  map.Erase({7, 7});
  map.Erase({1, 0});
  EXPECT_EQ(map.weight(), 30u);
}

}  // namespace
}  // namespace muster::common
