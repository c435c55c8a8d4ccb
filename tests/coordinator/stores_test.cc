// Metrics exactly once over restarts, checkpoint files by their hash, checksums.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/crc32c.h"
#include "common/sha256.h"
#include "coordinator/blob_store.h"
#include "coordinator/data_lock.h"
#include "coordinator/metric_store.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

TEST(DataLock, ACoordinatorThatIsStillDyingIsWaitedFor) {
  TempDir dir;
  const std::string path = dir.path() + "/LOCK";
  auto first = LockDataDirectory(path, std::chrono::milliseconds(0));
  ASSERT_TRUE(first.ok());
  const auto refused = LockDataDirectory(path, std::chrono::milliseconds(0));
  EXPECT_NE(refused.status().message().find("[JC1604]"), std::string::npos);
  std::thread dying([&] { first->Reset(); });
  EXPECT_TRUE(LockDataDirectory(path, std::chrono::seconds(20)).ok());
  dying.join();
}

class Sender : public MetricUploader {
 public:
  void Consumed(size_t bytes) override {}
  void Acknowledge(const v1::MetricAck& ack) override {
    std::lock_guard lock(mutex_);
    ++count_;
    last_ = ack;
    changed_.notify_all();
  }
  v1::MetricAck WaitForCount(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return count_ >= count; });
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  v1::MetricAck last_;
};

v1::MetricBatch Batch(uint64_t seq, int64_t step, double loss) {
  v1::MetricBatch batch;
  batch.set_job(1);
  batch.set_source("socket");
  batch.set_seq(seq);
  v1::MetricPoint* point = batch.add_points();
  point->set_name("train_loss");
  point->set_step(step);
  point->set_value(loss);
  return batch;
}

void Fail(const absl::Status& status) { ADD_FAILURE() << status; }

TEST(Crc32cTest, MatchesTheCheckValueOfTheRfc) {
  EXPECT_EQ(common::Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(common::Crc32c("6789", common::Crc32c("12345")), 0xe3069283u);
}

TEST(MetricStoreTest, ARepeatedBatchCountsOnceAlsoAfterARestart) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    MetricStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    EXPECT_EQ(sender->WaitForCount(3).durable_seq(), 2u);
  }
  MetricStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Batch(2, 11, 0.4), sender);
  store.Append(Batch(3, 12, 0.3), sender);
  EXPECT_EQ(sender->WaitForCount(2).durable_seq(), 3u);
  EXPECT_EQ(store.Read(1)->size(), 3u);
  v1::JobSummary summary;
  summary.set_id(1);
  store.Decorate(summary);
  EXPECT_EQ(summary.step(), 12);
  EXPECT_DOUBLE_EQ(summary.loss(), 0.3);
}

TEST(MetricStoreTest, ATornBatchIsCutAndTakenAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    MetricStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    sender->WaitForCount(2);
  }
  const std::string path = paths.MetricFile(1, 0);
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(common::ReadFile(path)->size() - 3)), 0);
  MetricStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Batch(2, 11, 0.4), sender);
  EXPECT_EQ(sender->WaitForCount(1).durable_seq(), 2u);
  const auto batches = store.Read(1);
  ASSERT_EQ(batches->size(), 2u);
  EXPECT_EQ((*batches)[1].seq(), 2u);
}

TEST(BlobStoreTest, AnUploadGoesOnWhereItBroke) {
  TempDir dir;
  auto store = *BlobStore::Open(Paths(dir.path()));
  const std::string bytes = "the bytes of a checkpoint";
  const std::string hash = common::Sha256Hex(bytes);
  ASSERT_FALSE(store->Begin(hash, bytes.size())->have);
  ASSERT_TRUE(store->Write(hash, bytes.size(), 0, bytes.substr(0, 10)).ok());
  EXPECT_FALSE(*store->Finish(hash, bytes.size()));
  EXPECT_EQ(store->Begin(hash, bytes.size())->offset, 10u);
  EXPECT_EQ(store->Write(hash, bytes.size(), 15, bytes.substr(15)).code(),
            absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(store->Write(hash, bytes.size(), 10, bytes.substr(10)).ok());
  EXPECT_TRUE(*store->Finish(hash, bytes.size()));
  EXPECT_TRUE(store->Begin(hash, bytes.size())->have);
  EXPECT_EQ(*store->Read(hash, 4, 5), "bytes");
  EXPECT_TRUE(store->Verify(hash).ok());
}

TEST(BlobStoreTest, BytesThatDoNotMatchTheirHashNeverAppear) {
  TempDir dir;
  auto store = *BlobStore::Open(Paths(dir.path()));
  const std::string hash = common::Sha256Hex("expected");
  ASSERT_TRUE(store->Write(hash, 8, 0, "received").ok());
  EXPECT_EQ(store->Finish(hash, 8).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(store->Begin(hash, 8)->have);
  EXPECT_EQ(store->Begin(hash, 8)->offset, 0u);
  EXPECT_FALSE(store->Begin("../../etc/passwd", 8).ok());
}

TEST(BlobStoreTest, ACorruptedBlobIsFoundAndAPromisedOneIsKept) {
  TempDir dir;
  const Paths paths(dir.path());
  auto store = *BlobStore::Open(paths);
  const std::string hash = common::Sha256Hex("good bytes");
  ASSERT_TRUE(store->Write(hash, 10, 0, "good bytes").ok());
  ASSERT_TRUE(*store->Finish(hash, 10));
  EXPECT_FALSE(store->RemoveUnlessPromised(hash));
  ASSERT_TRUE(common::WriteFileDurably(paths.BlobFile(hash), "evil bytes").ok());
  EXPECT_EQ(store->Verify(hash).code(), absl::StatusCode::kDataLoss);
  auto reopened = *BlobStore::Open(paths);
  EXPECT_TRUE(reopened->RemoveUnlessPromised(hash));
}

}  // namespace
}  // namespace muster::coordinator
