// Log bytes on real files: exactly what was sent, once, also after a crash in the middle of a
// write.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "coordinator/local/log_store.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"
#include "tests/stores/no_free_descriptors.h"
#include "tests/stores/small_disk.h"

namespace muster::coordinator {
namespace {

void Fail(const absl::Status& status) { ADD_FAILURE() << status; }

TEST(LocalLogStoreTest, ATornTailIsCutAndSentAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "whole\n"), sender);
    store.Append(Chunk(0, 6, "torn\n"), sender);
    sender->WaitFor(11);
  }
  // A power cut kept the index record but not all bytes of its data.
  const std::string data = paths.LogFile(1, 0, 0, v1::LOG_STREAM_STDOUT);
  ASSERT_EQ(truncate(data.c_str(), 8), 0);
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<LogSender>();
  store.Append(Chunk(0, 6, "torn\n"), sender);
  EXPECT_EQ(sender->WaitFor(11).durable_offset(), 11u);
  EXPECT_EQ(ReadAll(LocalLogReader(paths), Everything()), "whole\ntorn\n");
}

TEST(LocalLogStoreTest, ATornIndexRecordIsCut) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "one\n"), sender);
    store.Append(Chunk(0, 4, "two\n"), sender);
    sender->WaitFor(8);
  }
  const std::string index = paths.LogIndex(1, 0, 0, v1::LOG_STREAM_STDOUT);
  ASSERT_EQ(truncate(index.c_str(), kLogIndexRecordBytes + 17), 0);
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<LogSender>();
  store.Append(Chunk(0, 4, "TWO\n", 2'000, true), sender);
  EXPECT_EQ(sender->WaitFor(9).durable_offset(), 9u);  // the end counts as one more
  EXPECT_EQ(ReadAll(LocalLogReader(paths), Everything()), "one\nTWO\n");
  EXPECT_EQ(store.UnendedStreams(), 0u);
}

TEST(LocalLogStoreTest, AnIndexRecordThatCannotBeIsCutAlsoAfterARestart) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalLogStore store(paths, Fail);
    auto sender = std::make_shared<LogSender>();
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
  EXPECT_EQ(ReadAll(LocalLogReader(paths), Everything()), "good\n");
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<LogSender>();
  store.Append(Chunk(0, 5, "more\n"), sender);
  EXPECT_EQ(sender->WaitFor(10).durable_offset(), 10u);
  EXPECT_EQ(ReadAll(LocalLogReader(paths), Everything()), "good\nmore\n");
}

TEST(LocalLogStoreTest, AnOffsetThatNoFileCanHoldEndsThatStreamAlone) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 64 << 20;
  setrlimit(RLIMIT_FSIZE, &small);
  auto hostile = std::make_shared<LogSender>();
  v1::LogChunk chunk = Chunk(0, 128 << 20, "x");
  chunk.set_dropped(128 << 20);
  store.Append(chunk, hostile);
  EXPECT_TRUE(hostile->WaitFor(UINT64_MAX).refused());
  auto neighbour = std::make_shared<LogSender>();
  store.Append(Chunk(1, 0, "fine\n"), neighbour);
  EXPECT_EQ(neighbour->WaitFor(5).durable_offset(), 5u);
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST(LocalLogStoreTest, MoreStreamsThanOpenFilesAreAllKept) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail, 2);
  std::vector<std::shared_ptr<LogSender>> senders(20);
  for (uint64_t line = 0; line < 2; ++line) {
    for (uint32_t rank = 0; rank < senders.size(); ++rank) {
      if (line == 0) senders[rank] = std::make_shared<LogSender>();
      store.Append(Chunk(rank, 2 * line, "x\n", 1'000, line == 1), senders[rank]);
    }
  }
  for (const auto& sender : senders) EXPECT_EQ(sender->WaitFor(5).durable_offset(), 5u);
  EXPECT_EQ(ReadAll(LocalLogReader(paths), Everything()).size(), 20u * 4);
}

TEST(LocalLogStoreTest, WithoutAFreeDescriptorNothingIsLostAndNoReaderPassesBytesOver) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, Fail);
  auto sender = std::make_shared<LogSender>();
  store.Append(Chunk(0, 0, "first\n"), sender);
  sender->WaitFor(6);
  auto other = std::make_shared<LogSender>();
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

TEST(LocalLogStoreTest, WithoutRoomOrInodesItWaitsAndThenGoesOn) {
  for (const bool has_inodes : {false, true}) {
    TempDir dir;
    SmallDisk disk(dir.path());
    if (!disk.IsThere()) GTEST_SKIP() << "needs the right to mount";
    LocalLogStore store(Paths(dir.path()), Fail);
    auto sender = std::make_shared<LogSender>();
    has_inodes ? disk.FillBytes() : disk.FillInodes();
    store.Append(Chunk(0, 0, "late\n"), sender);
    EXPECT_FALSE(sender->HasWithin(std::chrono::milliseconds(100))) << has_inodes;
    disk.Free();
    EXPECT_EQ(sender->WaitFor(5).durable_offset(), 5u) << has_inodes;
  }
}

}  // namespace
}  // namespace muster::coordinator
