// Log bytes on real files: exactly what was sent, once, also after a crash in the middle of a
// write.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "common/files/files.h"
#include "coordinator/local/log_store.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"
#include "tests/stores/no_free_descriptors.h"
#include "tests/stores/small_disk.h"

namespace muster::coordinator {
namespace {

class DamagedLogTest : public testing::Test {
 protected:
  // Three records and, on request, an end, acknowledged; then the store is closed.
  void Store(bool ends) {
    LocalLogStore store(paths_);
    auto sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "first\n", 1'000), sender);
    store.Append(Chunk(0, 6, "second\n", 5'000), sender);
    store.Append(Chunk(0, 13, "third\n", 9'000, ends), sender);
    EXPECT_EQ(sender->WaitFor(19).durable_offset(), ends ? 20u : 19u);
  }
  void Damage(const std::string& what) {
    std::string bytes = *common::ReadFile(File());
    bytes[bytes.find(what)] = 'X';
    ASSERT_TRUE(common::WriteFileDurably(File(), bytes).ok());
  }
  std::string File() const { return SegmentFiles(paths_.LogStream({.job = 1})).At(0); }
  std::string Read() const { return ReadAll(LocalLogReader(paths_), Everything()); }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
};

TEST_F(DamagedLogTest, ATornTailIsCutAndSentAgain) {
  Store(false);
  ASSERT_EQ(truncate(File().c_str(), static_cast<off_t>(common::ReadFile(File())->size() - 2)), 0);
  LocalLogStore store(paths_);
  auto sender = std::make_shared<LogSender>();
  store.Append(Chunk(0, 13, "third\n", 9'000, true), sender);
  EXPECT_EQ(sender->WaitFor(20).durable_offset(), 20u) << "the end counts as one more";
  EXPECT_EQ(Read(), "first\nsecond\nthird\n");
  EXPECT_EQ(store.UnendedStreams(), 0u);
}

TEST_F(DamagedLogTest, WhatFollowsDamageIsServed) {
  for (const bool ends : {false, true}) {
    Store(ends);
    Damage("second");
    EXPECT_EQ(Read(), "first\n<7 damaged>third\n");
    unlink(File().c_str());
  }
}

TEST_F(DamagedLogTest, ASenderIsAskedForWhatWasDamagedAndBringsIt) {
  for (const bool ends : {false, true}) {
    Store(ends);
    Damage("second");
    {
      LocalLogStore store(paths_);
      auto sender = std::make_shared<LogSender>();
      // It continues where it stopped, and is told to go back.
      store.Append(ends ? Chunk(0, 19, "", 9'000, true) : Chunk(0, 19, "fourth\n", 12'000), sender);
      EXPECT_EQ(sender->WaitFor(1).durable_offset(), 6u);
      store.Append(Chunk(0, 6, "second\nthird\n", 5'000, ends), sender);
      EXPECT_GE(sender->WaitFor(19).durable_offset(), 19u);
      EXPECT_EQ(Read(), ends ? "first\nsecond\nthird\n" : "first\nsecond\nthird\nfourth\n");
    }
    unlink(File().c_str());
  }
}

TEST_F(DamagedLogTest, WhatItsSenderHasNoMoreStaysAMarkedGap) {
  Store(false);
  Damage("second");
  LocalLogStore store(paths_);
  auto sender = std::make_shared<LogSender>();
  v1::LogChunk chunk = Chunk(0, 19, "fourth\n", 12'000);
  chunk.set_kept_from(10);
  store.Append(chunk, sender);
  EXPECT_EQ(sender->WaitFor(1).durable_offset(), 10u);
  chunk = Chunk(0, 10, "nd\nthird\nfourth\n", 12'000);
  chunk.set_kept_from(10);
  store.Append(chunk, sender);
  EXPECT_EQ(sender->WaitFor(26).durable_offset(), 26u);
  EXPECT_EQ(Read(), "first\n<4 damaged>nd\nthird\nfourth\n");
}

TEST_F(DamagedLogTest, ADamagedEndThatItsSenderHasNoMoreStaysAMarkedGap) {
  Store(false);
  Damage("third");
  LocalLogStore store(paths_);
  auto sender = std::make_shared<LogSender>();
  store.Append(Chunk(0, 19, "fourth\n", 12'000), sender);
  EXPECT_EQ(sender->WaitFor(1).durable_offset(), 13u);
  v1::LogChunk chunk = Chunk(0, 19, "fourth\n", 12'000);
  chunk.set_kept_from(19);
  store.Append(chunk, sender);
  EXPECT_EQ(sender->WaitFor(26).durable_offset(), 26u);
  EXPECT_EQ(Read(), "first\nsecond\n<6 damaged>fourth\n");
}

TEST_F(DamagedLogTest, AWorkerOfBeforeThatNeverGoesBackIsNotHeldUp) {
  Store(false);
  Damage("second");
  LocalLogStore store(paths_);
  auto sender = std::make_shared<LogSender>();
  v1::LogChunk chunk = Chunk(0, 19, "fourth\n", 12'000, true);
  chunk.clear_kept_from();
  store.Append(chunk, sender);
  EXPECT_EQ(sender->WaitFor(27).durable_offset(), 27u);
  EXPECT_EQ(Read(), "first\n<7 damaged>third\nfourth\n");
}

TEST(LocalLogStoreTest, MoreStreamsThanOpenFilesAreAllKept) {
  TempDir dir;
  const Paths paths(dir.path());
  LocalLogStore store(paths, {.open_max = 2});
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
  LocalLogStore store(paths);
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
    LocalLogStore store(Paths(dir.path()));
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
