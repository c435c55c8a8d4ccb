// Log bytes on real files: exactly what was sent, once, also after a crash in the middle of a
// write.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "coordinator/local/log_store.h"
#include "coordinator/log_merge.h"
#include "tests/coordinator/no_free_descriptors.h"
#include "tests/coordinator/small_disk.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

v1::LogChunk Chunk(uint32_t rank, uint64_t offset, const std::string& data, int64_t time_us = 1'000,
                   bool end = false) {
  v1::LogChunk chunk;
  chunk.set_job(1);
  chunk.set_rank(rank);
  chunk.set_stream(v1::LOG_STREAM_STDOUT);
  chunk.set_offset(offset);
  chunk.set_time_us(time_us);
  chunk.set_data(data);
  chunk.set_end(end);
  return chunk;
}

class Sender : public LogUploader {
 public:
  void Consumed(size_t bytes) override {}
  void Acknowledge(const v1::LogAck& ack) override {
    std::lock_guard lock(mutex_);
    last_ = ack;
    changed_.notify_all();
  }
  bool HasWithin(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return last_.durable_offset() > 0; });
  }
  // The last acknowledgement once it covers `offset` or is a refusal.
  v1::LogAck WaitFor(uint64_t offset) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return last_.durable_offset() >= offset || last_.refused(); });
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  v1::LogAck last_;
};

std::string ReadAll(const Paths& paths, const v1::StreamLogsRequest& request) {
  const LocalLogReader reader(paths);
  LogMerge merge(reader, 1, request);
  EXPECT_TRUE(merge.Discover().ok());
  std::string text;
  while (const auto record = merge.Next()) {
    if (record->dropped() > 0) text += "<" + std::to_string(record->dropped()) + " lost>";
    text += record->data();
  }
  return text;
}

v1::StreamLogsRequest Everything() {
  v1::StreamLogsRequest request;
  request.set_attempt(-1);
  return request;
}

void Fail(const absl::Status& status) { ADD_FAILURE() << status; }

TEST(LogStoreTest, RepeatedAndOverlappingChunksAreStoredOnce) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 0, "hello "), sender);
  store.Append(Chunk(0, 0, "hello "), sender);
  store.Append(Chunk(0, 3, "lo world\n"), sender);
  EXPECT_EQ(sender->WaitFor(12).durable_offset(), 12u);
  EXPECT_EQ(ReadAll(paths, Everything()), "hello world\n");
}

TEST(LogStoreTest, AGapNeedsToBeExplained) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 0, "abc"), sender);
  store.Append(Chunk(0, 10, "unexplained"), sender);
  EXPECT_EQ(sender->WaitFor(3).durable_offset(), 3u);
  v1::LogChunk after_loss = Chunk(0, 10, "xyz");
  after_loss.set_dropped(7);
  store.Append(after_loss, sender);
  EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  EXPECT_EQ(ReadAll(paths, Everything()), "abc<7 lost>xyz");
}

TEST(LogStoreTest, AGapThatNothingFollowsYetSurvivesAReopening) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "abc"), sender);
    v1::LogChunk gap = Chunk(0, 10, "");
    gap.set_dropped(7);
    store.Append(gap, sender);
    store.Append(Chunk(0, 10, "xyz"), sender);
    EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  }
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 13, "!"), sender);
  EXPECT_EQ(sender->WaitFor(14).durable_offset(), 14u);
  EXPECT_EQ(ReadAll(paths, Everything()), "abc<7 lost>xyz!");
}

TEST(LogStoreTest, ATornTailIsCutAndSentAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "whole\n"), sender);
    store.Append(Chunk(0, 6, "torn\n"), sender);
    sender->WaitFor(11);
  }
  // A power cut kept the index record but not all bytes of its data.
  const std::string data = paths.LogFile(1, 0, 0, v1::LOG_STREAM_STDOUT);
  ASSERT_EQ(truncate(data.c_str(), 8), 0);
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 6, "torn\n"), sender);
  EXPECT_EQ(sender->WaitFor(11).durable_offset(), 11u);
  EXPECT_EQ(ReadAll(paths, Everything()), "whole\ntorn\n");
}

TEST(LogStoreTest, ATornIndexRecordIsCut) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "one\n"), sender);
    store.Append(Chunk(0, 4, "two\n"), sender);
    sender->WaitFor(8);
  }
  const std::string index = paths.LogIndex(1, 0, 0, v1::LOG_STREAM_STDOUT);
  ASSERT_EQ(truncate(index.c_str(), kLogIndexRecordBytes + 17), 0);
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 4, "TWO\n", 2'000, true), sender);
  EXPECT_EQ(sender->WaitFor(9).durable_offset(), 9u);  // the end counts as one more
  EXPECT_EQ(ReadAll(paths, Everything()), "one\nTWO\n");
  EXPECT_EQ(store.UnendedStreams(), 0u);
}

TEST(LogStoreTest, ChunksOfARemovedJobAreRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 0, "abc"), sender);
  sender->WaitFor(3);
  store.Remove(1);
  store.Append(Chunk(0, 3, "def"), sender);
  store.Append(Chunk(0, 3, "def"), sender);
  EXPECT_TRUE(sender->WaitFor(UINT64_MAX).refused());
  EXPECT_FALSE(common::Exists(paths.LogDirectory(1)));
}

TEST(LogStoreTest, RanksAreMergedByTimeAndReadFromAnOffset) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 0, "a1\n", 10'000), sender);
  store.Append(Chunk(0, 3, "a2\n", 30'000), sender);
  store.Append(Chunk(1, 0, "b1\n", 20'000), sender);
  store.Append(Chunk(1, 3, "b2\n", 40'000), sender);
  store.Append(Chunk(1, 6, "b3\n", 50'000), sender);
  sender->WaitFor(9);
  store.Stop();
  EXPECT_EQ(ReadAll(paths, Everything()), "a1\nb1\na2\nb2\nb3\n");
  v1::StreamLogsRequest tail = Everything();
  tail.set_tail_lines(3);
  EXPECT_EQ(ReadAll(paths, tail), "a2\nb2\nb3\n");
  v1::StreamLogsRequest resumed = Everything();
  v1::LogPosition* position = resumed.add_resume();
  position->set_rank(1);
  position->set_stream(v1::LOG_STREAM_STDOUT);
  position->set_offset(4);
  EXPECT_EQ(ReadAll(paths, resumed), "a1\na2\n2\nb3\n");
  v1::StreamLogsRequest since = Everything();
  since.set_since_ms(40);
  EXPECT_EQ(ReadAll(paths, since), "b2\nb3\n");
}

TEST(LogStoreTest, AnIndexRecordThatCannotBeIsCutAlsoAfterARestart) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "good\n"), sender);
    sender->WaitFor(5);
  }
  // With a right sum, as an older version wrote what a rank had told it.
  const uint64_t huge = uint64_t{1} << 63;
  const std::string record =
      EncodeLogIndexRecord({.offset = huge, .dropped = huge - 5, .time_us = 1, .end = false}, 0);
  const std::string index = paths.LogIndex(1, 0, 0, v1::LOG_STREAM_STDOUT);
  const int fd = open(index.c_str(), O_WRONLY | O_APPEND);
  ASSERT_EQ(write(fd, record.data(), record.size()), static_cast<ssize_t>(record.size()));
  close(fd);
  EXPECT_EQ(ReadAll(paths, Everything()), "good\n");
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 5, "more\n"), sender);
  EXPECT_EQ(sender->WaitFor(10).durable_offset(), 10u);
  EXPECT_EQ(ReadAll(paths, Everything()), "good\nmore\n");
}

TEST(LogStoreTest, AnOffsetThatNoFileCanHoldEndsThatStreamAlone) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 64 << 20;
  setrlimit(RLIMIT_FSIZE, &small);
  auto hostile = std::make_shared<Sender>();
  v1::LogChunk chunk = Chunk(0, 128 << 20, "x");
  chunk.set_dropped(128 << 20);
  store.Append(chunk, hostile);
  EXPECT_TRUE(hostile->WaitFor(UINT64_MAX).refused());
  auto neighbour = std::make_shared<Sender>();
  store.Append(Chunk(1, 0, "fine\n"), neighbour);
  EXPECT_EQ(neighbour->WaitFor(5).durable_offset(), 5u);
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST(LogStoreTest, MoreStreamsThanOpenFilesAreAllKept) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail, 2);
  std::vector<std::shared_ptr<Sender>> senders(20);
  for (uint64_t line = 0; line < 2; ++line) {
    for (uint32_t rank = 0; rank < senders.size(); ++rank) {
      if (line == 0) senders[rank] = std::make_shared<Sender>();
      store.Append(Chunk(rank, 2 * line, "x\n", 1'000, line == 1), senders[rank]);
    }
  }
  for (const auto& sender : senders) EXPECT_EQ(sender->WaitFor(5).durable_offset(), 5u);
  EXPECT_EQ(ReadAll(paths, Everything()).size(), 20u * 4);
}

TEST(LogStoreTest, WithoutAFreeDescriptorNothingIsLostAndNoReaderPassesBytesOver) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 0, "first\n"), sender);
  sender->WaitFor(6);
  auto other = std::make_shared<Sender>();
  LogMerge merge(store.Reader(), 1, Everything());
  ASSERT_TRUE(merge.Discover().ok());
  {
    NoFreeDescriptors none;
    store.Append(Chunk(1, 0, "second\n"), other);
    EXPECT_FALSE(merge.Next().has_value());
    EXPECT_TRUE(absl::IsUnavailable(merge.Trouble())) << merge.Trouble();
    EXPECT_TRUE(absl::IsUnavailable(merge.Discover()));
  }
  EXPECT_EQ(merge.Next()->data(), "first\n");
  EXPECT_EQ(other->WaitFor(7).durable_offset(), 7u);
}

TEST(LogStoreTest, WithoutRoomOrInodesItWaitsAndThenGoesOn) {
  for (const bool has_inodes : {false, true}) {
    TempDir dir;
    SmallDisk disk(dir.path());
    if (!disk.IsThere()) GTEST_SKIP() << "needs the right to mount";
    LocalLogStore store(Paths(dir.path()), Fail);
    auto sender = std::make_shared<Sender>();
    has_inodes ? disk.FillBytes() : disk.FillInodes();
    store.Append(Chunk(0, 0, "late\n"), sender);
    EXPECT_FALSE(sender->HasWithin(std::chrono::milliseconds(100))) << has_inodes;
    disk.Free();
    EXPECT_EQ(sender->WaitFor(5).durable_offset(), 5u) << has_inodes;
  }
}

TEST(LogStoreTest, TheRestOfAJobIsGivenUpUntilMoreOfItComes) {
  TempDir dir;
  LocalLogStore store(Paths(dir.path()), Fail);
  EXPECT_FALSE(store.IsRestGivenUp(1));
  store.GiveUpRest(1);
  EXPECT_TRUE(store.IsRestGivenUp(1));
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 0, "late\n"), sender);
  sender->WaitFor(5);
  EXPECT_FALSE(store.IsRestGivenUp(1));
}

}  // namespace
}  // namespace muster::coordinator
