// Properties of the keyed permutation and of the sharded sampler.
#include "muster/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace muster {
namespace {

std::vector<int64_t> image_of(int64_t size, uint64_t key) {
  const KeyedPermutation permutation(size, key);
  std::vector<int64_t> image(size);
  for (int64_t i = 0; i < size; ++i) image[i] = permutation(i);
  return image;
}

ShardedSampler sampler_of(int64_t size, int64_t batch, int rank, int world_size,
                          LastBatch last_batch = LastBatch::wrap) {
  return ShardedSampler({.dataset_size = size,
                         .batch_size = batch,
                         .seed = 7,
                         .last_batch = last_batch,
                         .rank = rank,
                         .world_size = world_size});
}

// The samples of all ranks, step by step in global order, until the epoch ends.
std::vector<int64_t> rest_of_epoch(std::vector<ShardedSampler>& ranks) {
  std::vector<int64_t> all;
  while (true) {
    size_t ended = 0;
    for (ShardedSampler& rank : ranks) {
      const auto batch = rank.next_batch();
      if (!batch) ++ended;
      if (batch) all.insert(all.end(), batch->begin(), batch->end());
    }
    if (ended == ranks.size()) return all;
    if (ended != 0) throw std::logic_error("the ranks got different numbers of batches");
  }
}

std::vector<ShardedSampler> world(int64_t size, int64_t batch, int world_size,
                                  LastBatch last_batch = LastBatch::wrap) {
  std::vector<ShardedSampler> ranks;
  for (int r = 0; r < world_size; ++r)
    ranks.push_back(sampler_of(size, batch, r, world_size, last_batch));
  return ranks;
}

TEST(KeyedPermutation, MeetsEveryIndexOnceForEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    std::vector<int64_t> image = image_of(size, 1000 + size);
    std::sort(image.begin(), image.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(image[i], i) << "size " << size;
  }
}

TEST(KeyedPermutation, DependsOnTheKeyAndOnNothingElse) {
  EXPECT_EQ(image_of(1000, 5), image_of(1000, 5));
  EXPECT_NE(image_of(1000, 5), image_of(1000, 6));
}

TEST(KeyedPermutation, KeepsItsOrderFromReleaseToRelease) {
  // A saved position is useless if a new version shuffles differently.
  EXPECT_EQ(image_of(10, 42), (std::vector<int64_t>{5, 9, 7, 8, 6, 4, 1, 2, 3, 0}));
}

TEST(KeyedPermutation, SpreadsEachIndexEvenlyOverTheKeys) {
  // 20,000 keys, 20 positions: chi-squared with 19 degrees of freedom stays below 43.8 (p = 0.001).
  std::vector<int> counts(20, 0);
  for (uint64_t key = 0; key < 20'000; ++key) ++counts[KeyedPermutation(20, key)(3)];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 43.8);
}

TEST(KeyedPermutation, WorksForSizesThatNeedTheWholeRange) {
  const int64_t size = int64_t{1} << 61;
  const KeyedPermutation permutation(size + 12'345, 9);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t image = permutation(size - i);
    EXPECT_TRUE(image >= 0 && image < size + 12'345);
    EXPECT_TRUE(seen.insert(image).second);
  }
}

TEST(KeyedPermutation, RefusesAnIndexOutsideTheSize) {
  EXPECT_THROW(KeyedPermutation(10, 1)(10), std::out_of_range);
  EXPECT_THROW(KeyedPermutation(10, 1)(-1), std::out_of_range);
}

TEST(ShardedSampler, GivesEverySampleOnceWhenBatchesFillUp) {
  for (const int world_size : {1, 2, 3, 6}) {
    auto ranks = world(360, 10, world_size);
    std::vector<int64_t> all = rest_of_epoch(ranks);
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), 360u);
    for (int64_t i = 0; i < 360; ++i) ASSERT_EQ(all[i], i);
  }
}

TEST(ShardedSampler, HasOneGlobalOrderForEveryWorldSize) {
  auto one = world(360, 12, 1);
  auto three = world(360, 4, 3);
  EXPECT_EQ(rest_of_epoch(one), rest_of_epoch(three));
}

TEST(ShardedSampler, WrapsTheLastBatchSoThatRanksStayEqual) {
  auto ranks = world(10, 2, 3);  // 6 + 4, the last four on three ranks: 2 each, 2 of them twice
  const std::vector<int64_t> all = rest_of_epoch(ranks);
  EXPECT_EQ(all.size(), 12u);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 10u);
  EXPECT_EQ(all[10], all[0]);
  EXPECT_EQ(all[11], all[1]);
  EXPECT_EQ(ranks[0].batches_per_epoch(), 2);
}

TEST(ShardedSampler, DropsTheLastBatchWhenAsked) {
  auto ranks = world(10, 2, 3, LastBatch::drop);
  EXPECT_EQ(rest_of_epoch(ranks).size(), 6u);
  EXPECT_EQ(ranks[0].epoch(), 1);
  EXPECT_EQ(ranks[0].batches_per_epoch(), 1);
}

TEST(ShardedSampler, ShufflesEachEpochDifferently) {
  auto ranks = world(100, 10, 1);
  const auto first = rest_of_epoch(ranks);
  const auto second = rest_of_epoch(ranks);
  EXPECT_NE(first, second);
  EXPECT_EQ(ranks[0].epoch(), 2);
}

TEST(ShardedSampler, ResumesInTheMiddleOfAnEpochOnAnotherWorldSize) {
  for (const int world_size : {1, 2, 5}) {
    auto before = world(100, 5, 2);
    for (int step = 0; step < 4; ++step) {
      for (ShardedSampler& rank : before) rank.next_batch();
    }
    auto after = world(100, 60 / (world_size * 3), world_size);
    for (ShardedSampler& rank : after) rank.set_position(before[0].position());
    auto expected = rest_of_epoch(before);
    auto resumed = rest_of_epoch(after);
    resumed.resize(expected.size());  // without the samples that the last batch wrapped around to
    EXPECT_EQ(resumed, expected) << "world size " << world_size;
  }
}

TEST(ShardedSampler, NamesTheOptionThatIsWrong) {
  EXPECT_THROW(ShardedSampler({.dataset_size = 0}), std::invalid_argument);
  EXPECT_THROW(ShardedSampler({.dataset_size = 5, .batch_size = 0}), std::invalid_argument);
  EXPECT_THROW(sampler_of(10, 4, 3, 3), std::invalid_argument);
  EXPECT_THROW(sampler_of(10, 4, 0, 3, LastBatch::drop), std::invalid_argument);
  ShardedSampler sampler = sampler_of(10, 2, 0, 1);
  EXPECT_THROW(sampler.set_position({.seed = 7, .epoch = 0, .consumed = 11}),
               std::invalid_argument);
}

TEST(ShardRange, CoversEveryItemOnce) {
  int64_t next = 0;
  for (int rank = 0; rank < 7; ++rank) {
    const auto [begin, end] = shard_range(360, rank, 7);
    EXPECT_EQ(begin, next);
    EXPECT_LE(end - begin, 52);
    EXPECT_GE(end - begin, 51);
    next = end;
  }
  EXPECT_EQ(next, 360);
}

}  // namespace
}  // namespace muster
