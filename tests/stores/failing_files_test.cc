// One stream's file fails: that stream waits and is resent, all others continue, and nothing that
// was acknowledged is lost.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/files/files.h"
#include "coordinator/local/failing_streams.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/metric_store.h"
#include "coordinator/stores/stream_failures.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/failing_sync.h"
#include "tests/stores/log_sender.h"
#include "tests/stores/metric_sender.h"

namespace muster::coordinator {
namespace {

class FailingLogTest : public testing::Test {
 protected:
  std::string FileOf(uint32_t rank) const {
    return SegmentFiles(paths_.LogStream({.job = 1, .rank = rank})).At(0);
  }
  std::string Read() const { return ReadAll(LocalLogReader(paths_), Everything()); }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
};

TEST_F(FailingLogTest, WhatAFailedSyncLostIsSentAgainFromTheLastDurableOffset) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    LocalLogStore store(paths_);
    const auto sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "first\n"), sender);
    EXPECT_EQ(sender->WaitFor(6).durable_offset(), 6u);
    {
      const FailingSync fails("rank-0", 1, error);
      store.Append(Chunk(0, 6, "second\n"), sender);
      EXPECT_TRUE(sender->WaitToSendAgain());
      EXPECT_EQ(sender->WaitFor(0).durable_offset(), 6u) << "nothing more is acknowledged";
    }
    // On its way already when its sender was told: what came before it is missing.
    store.Append(Chunk(0, 13, "third\n"), sender);
    const auto again = std::make_shared<LogSender>();
    store.Append(Chunk(0, 6, "second\nthird\n", 1'000, true), again);
    EXPECT_EQ(again->WaitFor(20).durable_offset(), 20u);
    EXPECT_EQ(Read(), "first\nsecond\nthird\n");
    store.Stop();
    EXPECT_EQ(Read(), "first\nsecond\nthird\n");
    ASSERT_TRUE(common::RemoveTree(paths_.LogDirectory(1)).ok());
  }
}

TEST_F(FailingLogTest, OneOfManyStreamsFailsAlone) {
  LocalLogStore store(paths_);
  std::vector<std::shared_ptr<LogSender>> senders(20);
  {
    const FailingSync fails("rank-7.", 1);
    for (uint32_t rank = 0; rank < senders.size(); ++rank) {
      senders[rank] = std::make_shared<LogSender>();
      store.Append(Chunk(rank, 0, "x\n"), senders[rank]);
    }
    EXPECT_TRUE(senders[7]->WaitToSendAgain());
  }
  for (uint32_t rank = 0; rank < senders.size(); ++rank) {
    if (rank != 7) EXPECT_EQ(senders[rank]->WaitFor(2).durable_offset(), 2u);
  }
  EXPECT_FALSE(senders[7]->HasWithin(std::chrono::milliseconds(0)));
  const auto again = std::make_shared<LogSender>();
  store.Append(Chunk(7, 0, "x\n"), again);
  EXPECT_EQ(again->WaitFor(2).durable_offset(), 2u);
}

TEST_F(FailingLogTest, ASenderThatNeverGoesBackLosesNothingEither) {
  LocalLogStore store(paths_);
  const auto sender = std::make_shared<LogSender>();
  const FailingSync fails("rank-0", 1);
  v1::LogChunk chunk = Chunk(0, 0, "first\n");
  chunk.clear_kept_from();
  store.Append(chunk, sender);
  EXPECT_TRUE(sender->WaitToSendAgain());
  chunk = Chunk(0, 6, "second\n");
  chunk.clear_kept_from();  // an older worker's: a gap before it would count as lost
  store.Append(chunk, sender);
  const auto again = std::make_shared<LogSender>();
  store.Append(Chunk(0, 0, "first\nsecond\n"), again);
  EXPECT_EQ(again->WaitFor(13).durable_offset(), 13u);
  EXPECT_EQ(Read(), "first\nsecond\n");
}

class WrongFile {
 public:
  enum class Kind { kFifo, kDirectory, kLink, kNoDirectory };
  WrongFile(Kind kind, std::string path) : path_(std::move(path)) {
    const std::string parent = path_.substr(0, path_.rfind('/'));
    if (kind == Kind::kNoDirectory) path_ = parent;
    const std::string above = path_.substr(0, path_.rfind('/'));
    EXPECT_TRUE(common::MakeDirectories(above).ok());
    if (kind == Kind::kFifo) EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    if (kind == Kind::kDirectory) EXPECT_EQ(mkdir(path_.c_str(), 0700), 0);
    if (kind == Kind::kLink) EXPECT_EQ(symlink("/dev/zero", path_.c_str()), 0);
    if (kind == Kind::kNoDirectory) EXPECT_TRUE(common::WriteFileDurably(path_, "").ok());
  }
  void Remove() { EXPECT_TRUE(common::RemoveTree(path_).ok()); }

 private:
  std::string path_;
};

constexpr WrongFile::Kind kWrongKinds[] = {WrongFile::Kind::kFifo, WrongFile::Kind::kDirectory,
                                           WrongFile::Kind::kLink, WrongFile::Kind::kNoDirectory};

TEST_F(FailingLogTest, WhatLiesInPlaceOfAFileHoldsUpItsStreamAloneUntilItIsGone) {
  for (const WrongFile::Kind kind : kWrongKinds) {
    WrongFile wrong(kind, FileOf(0));
    StreamFailures failures;
    std::atomic<int> told = 0;
    failures.OnFirst([&](const StreamFailures::Failure&) { ++told; });
    LocalLogStore store(paths_, {.failures = &failures});
    auto sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "x\n"), sender);
    EXPECT_TRUE(sender->WaitToSendAgain());
    const bool fails_again = kind == WrongFile::Kind::kFifo;  // the pause takes a second
    if (fails_again) {
      sender = std::make_shared<LogSender>();
      store.Append(Chunk(0, 0, "x\n"), sender);
    }
    const auto other = std::make_shared<LogSender>();
    v1::LogChunk chunk = Chunk(0, 0, "y\n");
    chunk.set_job(2);
    store.Append(chunk, other);
    EXPECT_EQ(other->WaitFor(2).durable_offset(), 2u);
    const std::vector<StreamFailures::Failure> now = failures.Now();
    ASSERT_EQ(now.size(), fails_again ? 1u : 0u);
    EXPECT_EQ(told, fails_again ? 1 : 0);
    if (fails_again) {
      EXPECT_EQ(now[0].job, 1u);
      EXPECT_EQ(now[0].problem.code, "JC1626");
      EXPECT_EQ(now[0].problem.what,
                "the output of job 1 attempt 0 rank 0 waits up to 1 s: its file failed");
    }
    wrong.Remove();
    if (fails_again) EXPECT_TRUE(sender->WaitToSendAgain());
    sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "x\n", 1'000, true), sender);
    EXPECT_EQ(sender->WaitFor(3).durable_offset(), 3u);
    EXPECT_EQ(Read(), "x\n");
    store.Stop();
    ASSERT_TRUE(common::RemoveTree(paths_.LogDirectory(1)).ok());
  }
}

TEST(FailingMetricTest, WhatAFailedSyncLostIsSentAgainByAllWhoSentIt) {
  TempDir dir;
  LocalMetricStore store{Paths(dir.path())};
  const auto first = std::make_shared<MetricSender>();
  store.Append(Batch(1, 10, 0.5), first);
  EXPECT_EQ(first->WaitForCount(1).durable_seq(), 1u);
  const auto other = std::make_shared<MetricSender>();
  v1::MetricBatch of_other = Batch(1, 10, 0.75);
  of_other.set_rank(1);
  {
    const FailingSync fails("/metrics/", 1);
    store.Append(Batch(2, 20, 0.25), first);
    store.Append(of_other, other);
    EXPECT_TRUE(first->WaitToSendAgain());
    EXPECT_TRUE(other->WaitToSendAgain());
  }
  store.Append(Batch(3, 30, 0.125), first);  // on its way already
  const auto again = std::make_shared<MetricSender>();
  store.Append(Batch(2, 20, 0.25), again);
  store.Append(Batch(3, 30, 0.125), again);
  store.Append(of_other, again);
  again->WaitForCount(3);
  EXPECT_EQ(first->Refusals() + again->Refusals(), 0);
  std::vector<std::pair<uint32_t, uint64_t>> stored;
  for (const v1::MetricBatch& batch : ReadAll(store))
    stored.emplace_back(batch.rank(), batch.seq());
  const std::vector<std::pair<uint32_t, uint64_t>> sent = {{0, 1}, {0, 2}, {0, 3}, {1, 1}};
  EXPECT_EQ(stored, sent);
}

TEST(FailingMetricTest, WhatLiesInPlaceOfAFileHoldsUpItsJobAloneUntilItIsGone) {
  for (const WrongFile::Kind kind : kWrongKinds) {
    TempDir dir;
    const Paths paths(dir.path());
    WrongFile wrong(kind, SegmentFiles(paths.MetricStream(1, 0)).At(0));
    LocalMetricStore store(paths);
    const auto sender = std::make_shared<MetricSender>();
    store.Append(Batch(1, 10, 0.5), sender);
    EXPECT_TRUE(sender->WaitToSendAgain());
    const auto other = std::make_shared<MetricSender>();
    v1::MetricBatch batch = Batch(1, 10, 0.5);
    batch.set_job(2);
    store.Append(batch, other);
    EXPECT_EQ(other->WaitForCount(1).durable_seq(), 1u);
    wrong.Remove();
    const auto again = std::make_shared<MetricSender>();
    store.Append(Batch(1, 10, 0.5), again);
    EXPECT_EQ(again->WaitForCount(1).durable_seq(), 1u);
  }
}

TEST(StreamFailuresTest, AJobIsToldOnceUntilItIsOver) {
  StreamFailures failures;
  std::vector<uint64_t> told;
  failures.OnFirst([&](const auto& failure) { told.push_back(failure.job); });
  failures.Failed({7, 0, {.what = "first"}}, 60'000);
  failures.Failed({7, 1, {.what = "second"}}, 1);
  failures.Failed({3, 0, {.what = "other"}}, 0);
  EXPECT_EQ(told, (std::vector<uint64_t>{7, 3}));
  const auto now = failures.Now();
  ASSERT_EQ(now.size(), 1u) << "job 3's is over already";
  EXPECT_EQ(now[0].problem.what, "second");
  failures.Failed({3, 0, {}}, 60'000);
  EXPECT_EQ(told.back(), 3u) << "told again";
  EXPECT_EQ(told.size(), 3u);
  for (uint64_t job = 100; failures.Now().size() < StreamFailures::kJobsMax; ++job)
    failures.Failed({job, 0, {}}, 60'000);
  failures.Failed({5, 0, {}}, 60'000);
  EXPECT_EQ(failures.Now().size(), StreamFailures::kJobsMax);
}

using Failing = FailingStreams<int, LogUploader>;

TEST(FailingStreamsTest, ThePauseDoublesAndIsForgotten) {
  Failing failing;
  int64_t now_ms = 5'000;
  EXPECT_EQ(failing.Failed(1, now_ms), 0);
  EXPECT_EQ(failing.DueMs(), now_ms);
  for (const int64_t pause_ms : {1'000, 2'000, 4'000, 8'000, 16'000, 32'000, 64'000, 64'000}) {
    EXPECT_EQ(failing.Failed(1, now_ms), pause_ms);
    failing.TakeDue(now_ms);
    EXPECT_GT(failing.DueMs(), now_ms);
    EXPECT_LE(failing.DueMs(), now_ms + pause_ms);
    now_ms = failing.DueMs();
  }
  failing.TakeDue(now_ms);
  EXPECT_EQ(failing.DueMs(), 0);
  EXPECT_EQ(failing.Failed(1, now_ms + 200'000), 0);
}

TEST(FailingStreamsTest, ASenderIsToldOnceItsStreamIsTriedAgainAndIsThenDoneFor) {
  Failing failing;
  failing.Failed(1, 5'000);
  failing.Failed(1, 5'000);
  const auto sender = std::make_shared<LogSender>();
  EXPECT_FALSE(failing.Takes(1, sender, 5'100));
  EXPECT_TRUE(failing.Takes(2, sender, 5'100));
  EXPECT_TRUE(failing.TakeDue(5'999).empty());
  EXPECT_EQ(failing.DueMs(), 6'000);
  EXPECT_EQ(failing.TakeDue(6'000).size(), 1u);
  EXPECT_TRUE(failing.TakeDue(6'000).empty());
  EXPECT_FALSE(failing.Takes(1, sender, 6'001));
  EXPECT_TRUE(failing.Takes(1, std::make_shared<LogSender>(), 6'001));
}

}  // namespace
}  // namespace muster::coordinator
