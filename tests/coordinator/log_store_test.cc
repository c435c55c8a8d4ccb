// Log bytes on real files: exactly what was sent, once, also after a crash in the middle of a
// write.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "coordinator/log_merge.h"
#include "coordinator/log_store.h"
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
  LogMerge merge(paths, 1, request);
  merge.Discover();
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
  LogStore store(paths, Fail);
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
  LogStore store(paths, Fail);
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
    LogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "abc"), sender);
    v1::LogChunk gap = Chunk(0, 10, "");
    gap.set_dropped(7);
    store.Append(gap, sender);
    store.Append(Chunk(0, 10, "xyz"), sender);
    EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  }
  LogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 13, "!"), sender);
  EXPECT_EQ(sender->WaitFor(14).durable_offset(), 14u);
  EXPECT_EQ(ReadAll(paths, Everything()), "abc<7 lost>xyz!");
}

TEST(LogStoreTest, ATornTailIsCutAndSentAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "whole\n"), sender);
    store.Append(Chunk(0, 6, "torn\n"), sender);
    sender->WaitFor(11);
  }
  // A power cut kept the index record but not all bytes of its data.
  const std::string data = paths.LogFile(1, 0, 0, v1::LOG_STREAM_STDOUT);
  ASSERT_EQ(truncate(data.c_str(), 8), 0);
  LogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 6, "torn\n"), sender);
  EXPECT_EQ(sender->WaitFor(11).durable_offset(), 11u);
  EXPECT_EQ(ReadAll(paths, Everything()), "whole\ntorn\n");
}

TEST(LogStoreTest, ATornIndexRecordIsCut) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LogStore store(paths, Fail);
    auto sender = std::make_shared<Sender>();
    store.Append(Chunk(0, 0, "one\n"), sender);
    store.Append(Chunk(0, 4, "two\n"), sender);
    sender->WaitFor(8);
  }
  const std::string index = paths.LogIndex(1, 0, 0, v1::LOG_STREAM_STDOUT);
  ASSERT_EQ(truncate(index.c_str(), kLogIndexRecordBytes + 17), 0);
  LogStore store(paths, Fail);
  auto sender = std::make_shared<Sender>();
  store.Append(Chunk(0, 4, "TWO\n", 2'000, true), sender);
  EXPECT_EQ(sender->WaitFor(9).durable_offset(), 9u);  // the end counts as one more
  EXPECT_EQ(ReadAll(paths, Everything()), "one\nTWO\n");
  EXPECT_EQ(store.UnendedStreams(), 0u);
}

TEST(LogStoreTest, ChunksOfARemovedJobAreRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  LogStore store(paths, Fail);
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
  LogStore store(paths, Fail);
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

}  // namespace
}  // namespace muster::coordinator
