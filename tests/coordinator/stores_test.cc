// Metrics exactly once over restarts, checkpoint files by their hash, checksums.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/crc32c.h"
#include "common/sha256.h"
#include "coordinator/data_lock.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/local/metric_store.h"
#include "tests/coordinator/no_free_descriptors.h"
#include "tests/coordinator/small_disk.h"
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
    refusals_ += ack.refused() ? 1 : 0;
    last_ = ack;
    changed_.notify_all();
  }
  bool HasWithin(int count, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return count_ >= count; });
  }
  int Refusals() {
    std::lock_guard lock(mutex_);
    return refusals_;
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
  int refusals_ = 0;
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

std::vector<v1::MetricBatch> ReadAll(const MetricStore& store) {
  std::vector<v1::MetricBatch> batches;
  const auto reader = store.Read(1);
  v1::MetricBatch batch;
  while (*reader->Next(batch)) batches.push_back(batch);
  return batches;
}

TEST(Crc32cTest, MatchesTheCheckValueOfTheRfc) {
  EXPECT_EQ(common::Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(common::Crc32c("6789", common::Crc32c("12345")), 0xe3069283u);
}

TEST(MetricStoreTest, ARepeatedBatchCountsOnceAlsoAfterARestart) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalMetricStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    EXPECT_EQ(sender->WaitForCount(3).durable_seq(), 2u);
  }
  LocalMetricStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Batch(2, 11, 0.4), sender);
  store.Append(Batch(3, 12, 0.3), sender);
  EXPECT_EQ(sender->WaitForCount(2).durable_seq(), 3u);
  EXPECT_EQ(ReadAll(store).size(), 3u);
  v1::JobSummary summary;
  summary.set_id(1);
  store.Decorate(summary);
  EXPECT_EQ(summary.step(), 12);
  EXPECT_DOUBLE_EQ(summary.loss(), 0.3);
}

v1::JobSummary ListedAs(MetricStore& store) {
  v1::JobSummary summary;
  summary.set_id(1);
  store.DecorateFinished(summary);
  return summary;
}

// The newest values lie beside the segments: whoever kills the daemon may leave none, or older
// ones.
TEST(MetricStoreTest, TheNewestValuesAreThoseOfTheSegmentsAfterAKill) {
  TempDir dir;
  const Paths paths(dir.path());
  const auto sender = std::make_shared<Sender>();
  std::string older;
  {
    LocalMetricStore store(paths, Fail);
    store.Append(Batch(1, 10, 0.5), sender);
    sender->WaitForCount(1);
    older = *common::ReadFile(paths.NewestMetricsFile(1));
    store.Append(Batch(2, 20, 0.25), sender);
    sender->WaitForCount(2);
  }
  unlink(paths.NewestMetricsFile(1).c_str());
  {
    LocalMetricStore store(paths, Fail);
    EXPECT_EQ(ListedAs(store).step(), 20);
    EXPECT_EQ(ListedAs(store).loss(), 0.25);
  }
  ASSERT_TRUE(common::WriteFileDurably(paths.NewestMetricsFile(1), older).ok());
  LocalMetricStore store(paths, Fail);
  EXPECT_EQ(ListedAs(store).step(), 10) << "until its worker is back";
  store.Append(Batch(2, 20, 0.25), sender);
  sender->WaitForCount(3);
  EXPECT_EQ(ListedAs(store).step(), 20);
  EXPECT_EQ(ListedAs(store).loss(), 0.25);
}

TEST(MetricStoreTest, ATornBatchIsCutAndTakenAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalMetricStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    sender->WaitForCount(2);
  }
  const std::string path = paths.MetricFile(1, 0);
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(common::ReadFile(path)->size() - 3)), 0);
  LocalMetricStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Batch(2, 11, 0.4), sender);
  EXPECT_EQ(sender->WaitForCount(1).durable_seq(), 2u);
  const auto batches = ReadAll(store);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].seq(), 2u);
}

TEST(MetricStoreTest, ASeqFarAheadIsRefusedAndDoesNotSilenceItsSource) {
  TempDir dir;
  LocalMetricStore store(Paths(dir.path()), Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Batch(1, 10, 0.5), sender);
  store.Append(Batch(uint64_t{1} << 42, 11, 0.4), sender);
  sender->WaitForCount(2);
  EXPECT_EQ(sender->Refusals(), 1);
  store.Append(Batch(2, 11, 0.4), sender);
  EXPECT_EQ(sender->WaitForCount(3).durable_seq(), 2u);
  EXPECT_EQ(ReadAll(store).size(), 2u);
}

TEST(MetricStoreTest, MoreAttemptsThanOpenFilesAreAllKept) {
  TempDir dir;
  LocalMetricStore store(Paths(dir.path()), Fail, 2);
  auto sender = std::make_shared<Sender>();
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    for (uint32_t attempt = 0; attempt < 10; ++attempt) {
      v1::MetricBatch batch = Batch(seq, static_cast<int64_t>(seq), 0.5);
      batch.set_attempt(attempt);
      store.Append(batch, sender);
    }
  }
  sender->WaitForCount(30);
  EXPECT_EQ(ReadAll(store).size(), 30u);
}

TEST(MetricStoreTest, WithoutAFreeDescriptorItWaitsAndThenGoesOn) {
  TempDir dir;
  LocalMetricStore store(Paths(dir.path()), Fail);
  auto sender = std::make_shared<Sender>();
  {
    NoFreeDescriptors none;
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    EXPECT_FALSE(sender->HasWithin(1, std::chrono::milliseconds(100)));
  }
  EXPECT_EQ(sender->WaitForCount(2).durable_seq(), 2u);
}

TEST(MetricStoreTest, WithoutRoomOrInodesItWaitsAndThenGoesOn) {
  for (const bool has_inodes : {false, true}) {
    TempDir dir;
    SmallDisk disk(dir.path());
    if (!disk.IsThere()) GTEST_SKIP() << "needs the right to mount";
    LocalMetricStore store(Paths(dir.path()), Fail);
    auto sender = std::make_shared<Sender>();
    has_inodes ? disk.FillBytes() : disk.FillInodes();
    store.Append(Batch(1, 10, 0.5), sender);
    EXPECT_FALSE(sender->HasWithin(1, std::chrono::milliseconds(100))) << has_inodes;
    disk.Free();
    EXPECT_EQ(sender->WaitForCount(1).durable_seq(), 1u) << has_inodes;
  }
}

TEST(MetricReaderTest, AGrowingSegmentIsReadOnWhereItEnded) {
  TempDir dir;
  LocalMetricStore store(Paths(dir.path()), Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Batch(1, 1, 0.5), sender);
  sender->WaitForCount(1);
  const auto reader = store.Read(1);
  v1::MetricBatch batch;
  EXPECT_TRUE(*reader->Next(batch));
  EXPECT_FALSE(*reader->Next(batch));
  store.Append(Batch(2, 2, 0.5), sender);
  sender->WaitForCount(2);
  EXPECT_TRUE(*reader->Next(batch));
  EXPECT_EQ(batch.seq(), 2u);
  EXPECT_FALSE(*reader->Next(batch));
}

TEST(BlobStoreTest, AnUploadGoesOnWhereItBroke) {
  TempDir dir;
  auto store = *LocalBlobStore::Open(Paths(dir.path()));
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

TEST(BlobStoreTest, SizesAndOffsetsThatCannotBeAreRefused) {
  TempDir dir;
  auto store = *LocalBlobStore::Open(Paths(dir.path()));
  const std::string hash = common::Sha256Hex("x");
  const uint64_t huge = uint64_t{1} << 63;
  EXPECT_EQ(store->Begin(hash, huge).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Write(hash, huge, 0, "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Write(hash, 1, UINT64_MAX, "x").code(), absl::StatusCode::kOutOfRange);
}

TEST(BlobStoreTest, BytesThatDoNotMatchTheirHashNeverAppear) {
  TempDir dir;
  auto store = *LocalBlobStore::Open(Paths(dir.path()));
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
  auto store = *LocalBlobStore::Open(paths);
  const std::string hash = common::Sha256Hex("good bytes");
  ASSERT_TRUE(store->Write(hash, 10, 0, "good bytes").ok());
  ASSERT_TRUE(*store->Finish(hash, 10));
  EXPECT_FALSE(store->RemoveUnlessPromised(hash));
  ASSERT_TRUE(common::WriteFileDurably(paths.BlobFile(hash), "evil bytes").ok());
  EXPECT_EQ(store->Verify(hash).code(), absl::StatusCode::kDataLoss);
  auto reopened = *LocalBlobStore::Open(paths);
  EXPECT_TRUE(reopened->RemoveUnlessPromised(hash));
}

}  // namespace
}  // namespace muster::coordinator
