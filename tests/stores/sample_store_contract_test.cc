// What nodes and readers may rely on, whichever engine keeps the samples.
#include <atomic>

#include "tests/stores/engines.h"
#include "tests/stores/sample_batches.h"

namespace muster::coordinator {
namespace {

using SampleStoreContract = StoreContract;
INSTANTIATE_TEST_SUITE_P(Engines, SampleStoreContract, testing::ValuesIn(EngineKinds()),
                         NameOfKind);

constexpr int64_t kStartMs = 1'700'000'000'000;  // on a whole minute and ten seconds
static_assert(kStartMs % 10'000 == 0);

TEST_P(SampleStoreContract, WhatWasAppendedIsReadInOrderAlsoAfterARestart) {
  {
    const auto store = engine().OpenSampleStore();
    store->Append(Samples(1, kStartMs, 0.5));
    store->Append(Samples(1, kStartMs + 1'000, 0.75));
    store->Append(Samples(2, kStartMs, 9));
    store->Stop();
  }
  const auto store = engine().OpenSampleStore();
  store->Append(Samples(1, kStartMs + 2'000, 1));
  const auto buckets = WaitForSamples(*store, {.job = 1}, 3);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].tier(), v1::SAMPLE_TIER_SECOND);
  EXPECT_EQ(buckets[0].last().time_ms(), kStartMs);
  EXPECT_FLOAT_EQ(buckets[1].last().ranks(0).cpu_cores(), 0.75);
  EXPECT_FLOAT_EQ(buckets[2].last().ranks(0).cpu_cores(), 1);
  EXPECT_FALSE(buckets[0].has_min());
}

TEST_P(SampleStoreContract, QueriesChooseAttemptNodeAndTime) {
  const auto store = engine().OpenSampleStore();
  store->Append(Samples(1, kStartMs, 1, "node1", 0));
  store->Append(Samples(1, kStartMs, 2, "../node 2", 0));
  store->Append(Samples(1, kStartMs + 5'000, 3, "node1", 1));
  EXPECT_EQ(WaitForSamples(*store, {.job = 1}, 3).size(), 3u);
  const auto of_node = ReadSamples(*store, {.job = 1, .node = "../node 2"});
  ASSERT_EQ(of_node.size(), 1u);
  EXPECT_EQ(of_node[0].last().node(), "../node 2");
  const auto of_attempt = ReadSamples(*store, {.job = 1, .attempt = 1});
  ASSERT_EQ(of_attempt.size(), 1u);
  EXPECT_FLOAT_EQ(of_attempt[0].last().ranks(0).cpu_cores(), 3);
  EXPECT_EQ(ReadSamples(*store, {.job = 1, .since_ms = kStartMs + 1}).size(), 1u);
  EXPECT_TRUE(ReadSamples(*store, {.job = 3}).empty());
}

TEST_P(SampleStoreContract, CoarserBucketsKeepLowestHighestAndLast) {
  {
    const auto store = engine().OpenSampleStore();
    for (int i = 0; i < 15; ++i) {
      store->Append(Samples(1, kStartMs + i * 1'000, i == 4 ? 9 : i == 6 ? 0.5f : 2));
    }
    store->Stop();  // ends the open buckets
  }
  const auto store = engine().OpenSampleStore();
  const auto buckets = ReadSamples(*store, {.job = 1, .tier = v1::SAMPLE_TIER_TEN_SECONDS});
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].tier(), v1::SAMPLE_TIER_TEN_SECONDS);
  EXPECT_EQ(buckets[0].batches(), 10u);
  EXPECT_FLOAT_EQ(buckets[0].min().ranks(0).cpu_cores(), 0.5);
  EXPECT_FLOAT_EQ(buckets[0].max().ranks(0).cpu_cores(), 9);
  EXPECT_FLOAT_EQ(buckets[0].last().ranks(0).cpu_cores(), 2);
  EXPECT_EQ(buckets[0].max().ranks(0).resident_bytes(), 9'000u);
  EXPECT_EQ(buckets[1].batches(), 5u);
  const auto minutes = ReadSamples(*store, {.job = 1, .tier = v1::SAMPLE_TIER_MINUTE});
  ASSERT_FALSE(minutes.empty());
  EXPECT_FLOAT_EQ(minutes[0].max().ranks(0).cpu_cores(), 9);
}

TEST_P(SampleStoreContract, TheNewestAreThoseOfTheNewestAttempt) {
  const auto store = engine().OpenSampleStore();
  store->Append(Samples(1, kStartMs, 1, "node1", 0));
  store->Append(Samples(1, kStartMs, 2, "node2", 1));
  store->Append(Samples(1, kStartMs + 1'000, 3, "node2", 1));
  store->Append(Samples(1, kStartMs + 2'000, 4, "node1", 0));  // late
  store->Append(Samples(1, kStartMs, 5, "node3", 1));
  const auto newest = store->Newest(1);
  ASSERT_EQ(newest.size(), 2u);
  EXPECT_EQ(newest[0].batch->node(), "node2");
  EXPECT_FLOAT_EQ(newest[0].batch->ranks(0).cpu_cores(), 3);
  EXPECT_EQ(newest[1].batch->node(), "node3");
  EXPECT_GE(newest[0].age_ms, 0);
  EXPECT_TRUE(store->Newest(2).empty());
}

TEST_P(SampleStoreContract, WatchersAreToldOfEachBatchOfTheirJob) {
  const auto store = engine().OpenSampleStore();
  std::atomic<int> told = 0;
  WatchToken token = store->Watch(1, [&told](const v1::SampleBatch&) { ++told; });
  store->Append(Samples(1, kStartMs, 1));
  store->Append(Samples(2, kStartMs, 1));
  EXPECT_EQ(told, 1);
  token = nullptr;
  store->Append(Samples(1, kStartMs, 1));
  EXPECT_EQ(told, 1);
}

TEST_P(SampleStoreContract, ARemovedJobHasNoneAndGetsNone) {
  const auto store = engine().OpenSampleStore();
  store->Append(Samples(1, kStartMs, 1));
  store->Append(Samples(2, kStartMs, 1));
  EXPECT_EQ(WaitForSamples(*store, {.job = 1}, 1).size(), 1u);
  store->Remove(1);
  store->Append(Samples(1, kStartMs + 1'000, 1));
  store->Append(Samples(2, kStartMs + 1'000, 1));
  EXPECT_EQ(WaitForSamples(*store, {.job = 2}, 2).size(), 2u);
  EXPECT_TRUE(WaitForSamples(*store, {.job = 1}, 0).empty());
  EXPECT_TRUE(store->Newest(1).empty());
}

}  // namespace
}  // namespace muster::coordinator
