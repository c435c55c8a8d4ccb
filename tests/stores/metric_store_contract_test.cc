// What workers and readers may rely on, whichever engine keeps the metrics: each batch once.
#include <atomic>

#include "tests/stores/engines.h"
#include "tests/stores/metric_sender.h"

namespace muster::coordinator {
namespace {

using MetricStoreContract = StoreContract;
INSTANTIATE_TEST_SUITE_P(Engines, MetricStoreContract, testing::ValuesIn(LogKinds()), NameOfKind);

TEST_P(MetricStoreContract, ARepeatedBatchCountsOnceAlsoAfterARestart) {
  {
    const auto store = engine().OpenMetricStore();
    auto sender = std::make_shared<MetricSender>();
    store->Append(Batch(1, 10, 0.5), sender);
    store->Append(Batch(1, 10, 0.5), sender);
    store->Append(Batch(2, 11, 0.4), sender);
    EXPECT_EQ(sender->WaitForCount(3).durable_seq(), 2u);
  }
  const auto store = engine().OpenMetricStore();
  auto sender = std::make_shared<MetricSender>();
  store->Append(Batch(2, 11, 0.4), sender);
  store->Append(Batch(3, 12, 0.3), sender);
  EXPECT_EQ(sender->WaitForCount(2).durable_seq(), 3u);
  EXPECT_EQ(ReadAll(*store).size(), 3u);
  v1::JobSummary summary;
  summary.set_id(1);
  store->Decorate(summary);
  EXPECT_EQ(summary.step(), 12);
  EXPECT_DOUBLE_EQ(summary.loss(), 0.3);
}

TEST_P(MetricStoreContract, ASeqFarAheadIsRefusedAndDoesNotSilenceItsSource) {
  const auto store = engine().OpenMetricStore();
  auto sender = std::make_shared<MetricSender>();
  store->Append(Batch(1, 10, 0.5), sender);
  store->Append(Batch(uint64_t{1} << 42, 11, 0.4), sender);
  sender->WaitForCount(2);
  EXPECT_EQ(sender->Refusals(), 1);
  store->Append(Batch(2, 11, 0.4), sender);
  EXPECT_EQ(sender->WaitForCount(3).durable_seq(), 2u);
  EXPECT_EQ(ReadAll(*store).size(), 2u);
}

TEST_P(MetricStoreContract, AGrowingAttemptIsReadOnWhereItEnded) {
  const auto store = engine().OpenMetricStore();
  auto sender = std::make_shared<MetricSender>();
  store->Append(Batch(1, 1, 0.5), sender);
  sender->WaitForCount(1);
  const auto reader = store->Read(1);
  v1::MetricBatch batch;
  EXPECT_TRUE(*reader->Next(batch));
  EXPECT_FALSE(*reader->Next(batch));
  store->Append(Batch(2, 2, 0.5), sender);
  sender->WaitForCount(2);
  EXPECT_TRUE(*reader->Next(batch));
  EXPECT_EQ(batch.seq(), 2u);
  EXPECT_FALSE(*reader->Next(batch));
}

TEST_P(MetricStoreContract, BatchesOfARemovedJobAreRefused) {
  const auto store = engine().OpenMetricStore();
  auto sender = std::make_shared<MetricSender>();
  store->Append(Batch(1, 10, 0.5), sender);
  sender->WaitForCount(1);
  store->Remove(1);
  store->Append(Batch(2, 11, 0.5), sender);
  sender->WaitForCount(2);
  EXPECT_EQ(sender->Refusals(), 1);
  EXPECT_TRUE(ReadAll(*store).empty());
  EXPECT_EQ(ListedAs(*store).step(), -1);
}

TEST_P(MetricStoreContract, AFinishedJobShowsItsNewestValuesAfterAReopening) {
  {
    const auto store = engine().OpenMetricStore();
    auto sender = std::make_shared<MetricSender>();
    v1::MetricBatch later = Batch(1, 20, 0.25);
    later.set_attempt(1);
    store->Append(Batch(1, 30, 0.5), sender);
    store->Append(later, sender);
    sender->WaitForCount(2);
  }
  const auto store = engine().OpenMetricStore();
  EXPECT_EQ(ListedAs(*store).step(), 30) << "the highest";
  EXPECT_EQ(ListedAs(*store).loss(), 0.25) << "the newest";
}

TEST_P(MetricStoreContract, AWatcherIsToldOfEachBatchOnce) {
  const auto store = engine().OpenMetricStore();
  std::atomic<int> told = 0;
  const WatchToken token = store->Watch(1, [&](const v1::MetricBatch&) { ++told; });
  auto sender = std::make_shared<MetricSender>();
  store->Append(Batch(1, 10, 0.5), sender);
  store->Append(Batch(1, 10, 0.5), sender);
  store->Append(Batch(2, 11, 0.5), sender);
  sender->WaitForCount(3);
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace muster::coordinator
