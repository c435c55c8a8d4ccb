// Metrics in segment files: crashes, torn ends, and shortages of room and descriptors.
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/files/files.h"
#include "coordinator/local/metric_store.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/metric_sender.h"
#include "tests/stores/no_free_descriptors.h"
#include "tests/stores/small_disk.h"

namespace muster::coordinator {
namespace {

// The newest values lie beside the segments: a kill of the daemon may leave none there, or older
// ones.
TEST(LocalMetricStoreTest, TheNewestValuesAreThoseOfTheSegmentsAfterAKill) {
  TempDir dir;
  const Paths paths(dir.path());
  const auto sender = std::make_shared<MetricSender>();
  std::string older;
  {
    LocalMetricStore store(paths);
    store.Append(Batch(1, 10, 0.5), sender);
    sender->WaitForCount(1);
    older = *common::ReadFile(paths.NewestMetricsFile(1));
    store.Append(Batch(2, 20, 0.25), sender);
    sender->WaitForCount(2);
  }
  unlink(paths.NewestMetricsFile(1).c_str());
  {
    LocalMetricStore store(paths);
    EXPECT_EQ(ListedAs(store).step(), 20);
    EXPECT_EQ(ListedAs(store).loss(), 0.25);
  }
  ASSERT_TRUE(common::WriteFileDurably(paths.NewestMetricsFile(1), older).ok());
  LocalMetricStore store(paths);
  EXPECT_EQ(ListedAs(store).step(), 10) << "until its worker is back";
  store.Append(Batch(2, 20, 0.25), sender);
  sender->WaitForCount(3);
  EXPECT_EQ(ListedAs(store).step(), 20);
  EXPECT_EQ(ListedAs(store).loss(), 0.25);
}

TEST(LocalMetricStoreTest, ABatchThatCameEncodedIsStoredAsItCame) {
  TempDir dir;
  const Paths paths(dir.path());
  v1::MetricBatch batch = Batch(1, 10, 0.5), points, rest = batch;
  *points.mutable_points() = batch.points();
  rest.clear_points();
  // A form that no SDK writes.
  batch.set_encoded(points.SerializeAsString() + rest.SerializeAsString());
  const std::string encoded = batch.encoded();
  LocalMetricStore store(paths);
  std::string watched;
  const WatchToken token =
      store.Watch(1, [&](const v1::MetricBatch& told) { watched = told.SerializeAsString(); });
  auto sender = std::make_shared<MetricSender>();
  store.Append(batch, sender);
  EXPECT_EQ(sender->WaitForCount(1).durable_seq(), 1u);
  const std::string expected = Batch(1, 10, 0.5).SerializeAsString();
  EXPECT_EQ(watched, expected);
  EXPECT_EQ(ReadAll(store).at(0).SerializeAsString(), expected);
  EXPECT_NE(common::ReadFile(SegmentFiles(paths.MetricStream(1, 0)).At(0))->find(encoded),
            std::string::npos);
}

TEST(LocalMetricStoreTest, ATornBatchIsCutAndTakenAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalMetricStore store(paths);
    auto sender = std::make_shared<MetricSender>();
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    sender->WaitForCount(2);
  }
  const std::string path = SegmentFiles(paths.MetricStream(1, 0)).At(0);
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(common::ReadFile(path)->size() - 3)), 0);
  LocalMetricStore store(paths);
  auto sender = std::make_shared<MetricSender>();
  store.Append(Batch(2, 11, 0.4), sender);
  EXPECT_EQ(sender->WaitForCount(1).durable_seq(), 2u);
  const auto batches = ReadAll(store);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].seq(), 2u);
}

TEST(LocalMetricStoreTest, ABatchThatWasDamagedIsPassedOverOrTakenAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalMetricStore store(paths);
    auto sender = std::make_shared<MetricSender>();
    for (uint64_t seq = 1; seq <= 4; ++seq) {
      store.Append(Batch(seq, static_cast<int64_t>(seq), 0.5), sender);
    }
    sender->WaitForCount(4);
  }
  const std::string path = SegmentFiles(paths.MetricStream(1, 0)).At(0);
  std::string bytes = *common::ReadFile(path);
  size_t at = bytes.find("train_loss");
  at = bytes.find("train_loss", at + 1);
  bytes[at] = 'X';
  ASSERT_TRUE(common::WriteFileDurably(path, bytes).ok());
  LocalMetricStore store(paths);
  const auto reader = store.Read(1);
  v1::MetricBatch batch;
  for (const uint64_t seq : {1, 3, 4}) {
    ASSERT_TRUE(*reader->Next(batch));
    EXPECT_EQ(batch.seq(), seq);
  }
  EXPECT_FALSE(*reader->Next(batch));
  EXPECT_GT(reader->DamagedBytes(), 0u);
  // Its sender still has it, and sends all again that was not acknowledged.
  auto sender = std::make_shared<MetricSender>();
  for (uint64_t seq = 2; seq <= 5; ++seq) {
    store.Append(Batch(seq, static_cast<int64_t>(seq), 0.5), sender);
  }
  EXPECT_EQ(sender->WaitForCount(4).durable_seq(), 5u);
  std::vector<uint64_t> seqs;
  for (const v1::MetricBatch& each : ReadAll(store)) seqs.push_back(each.seq());
  EXPECT_EQ(seqs, (std::vector<uint64_t>{1, 3, 4, 2, 5}));
}

TEST(LocalMetricStoreTest, MoreAttemptsThanOpenFilesAreAllKept) {
  TempDir dir;
  LocalMetricStore store(Paths(dir.path()), {.open_max = 2});
  auto sender = std::make_shared<MetricSender>();
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

TEST(LocalMetricStoreTest, WithoutAFreeDescriptorItWaitsAndThenGoesOn) {
  TempDir dir;
  LocalMetricStore store(Paths(dir.path()));
  auto sender = std::make_shared<MetricSender>();
  {
    NoFreeDescriptors none;
    store.Append(Batch(1, 10, 0.5), sender);
    store.Append(Batch(2, 11, 0.4), sender);
    EXPECT_FALSE(sender->HasWithin(1, std::chrono::milliseconds(100)));
  }
  EXPECT_EQ(sender->WaitForCount(2).durable_seq(), 2u);
}

TEST(LocalMetricStoreTest, WithoutRoomOrInodesItWaitsAndThenGoesOn) {
  for (const bool has_inodes : {false, true}) {
    TempDir dir;
    SmallDisk disk(dir.path());
    if (!disk.IsThere()) GTEST_SKIP() << "needs the right to mount";
    LocalMetricStore store(Paths(dir.path()));
    auto sender = std::make_shared<MetricSender>();
    has_inodes ? disk.FillBytes() : disk.FillInodes();
    store.Append(Batch(1, 10, 0.5), sender);
    EXPECT_FALSE(sender->HasWithin(1, std::chrono::milliseconds(100))) << has_inodes;
    disk.Free();
    EXPECT_EQ(sender->WaitForCount(1).durable_seq(), 1u) << has_inodes;
  }
}

}  // namespace
}  // namespace muster::coordinator
