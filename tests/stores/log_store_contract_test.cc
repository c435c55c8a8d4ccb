// What workers and readers may rely on, whichever engine keeps the logs: each byte once, in order.
#include <future>
#include <mutex>

#include "tests/stores/engines.h"
#include "tests/stores/log_sender.h"

namespace muster::coordinator {
namespace {

using LogStoreContract = StoreContract;
INSTANTIATE_TEST_SUITE_P(Engines, LogStoreContract, testing::ValuesIn(LogKinds()), NameOfKind);

TEST_P(LogStoreContract, RepeatedAndOverlappingChunksAreStoredOnce) {
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "hello "), sender);
  store->Append(Chunk(0, 0, "hello "), sender);
  store->Append(Chunk(0, 3, "lo world\n"), sender);
  EXPECT_EQ(sender->WaitFor(12).durable_offset(), 12u);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "hello world\n");
}

TEST_P(LogStoreContract, AGapNeedsToBeExplained) {
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "abc"), sender);
  store->Append(Chunk(0, 10, "unexplained"), sender);
  EXPECT_EQ(sender->WaitFor(3).durable_offset(), 3u);
  v1::LogChunk after_loss = Chunk(0, 10, "xyz");
  after_loss.set_dropped(7);
  store->Append(after_loss, sender);
  EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "abc<7 lost>xyz");
}

TEST_P(LogStoreContract, BytesThatNobodyHasAnyMoreAreAMarkedGap) {
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "abc"), sender);
  v1::LogChunk after = Chunk(0, 10, "xyz");
  after.set_dropped(3);
  after.set_kept_from(7);
  store->Append(after, sender);
  EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "abc<3 lost><4 damaged>xyz");
}

TEST_P(LogStoreContract, AGapThatNothingFollowsYetSurvivesAReopening) {
  {
    const auto store = engine().OpenLogStore();
    auto sender = std::make_shared<LogSender>();
    store->Append(Chunk(0, 0, "abc"), sender);
    v1::LogChunk gap = Chunk(0, 10, "");
    gap.set_dropped(7);
    store->Append(gap, sender);
    store->Append(Chunk(0, 10, "xyz"), sender);
    EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  }
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 13, "!"), sender);
  EXPECT_EQ(sender->WaitFor(14).durable_offset(), 14u);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "abc<7 lost>xyz!");
}

TEST_P(LogStoreContract, ChunksOfARemovedJobAreRefused) {
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "abc"), sender);
  sender->WaitFor(3);
  store->Remove(1);
  store->Append(Chunk(0, 3, "def"), sender);
  store->Append(Chunk(0, 3, "def"), sender);
  EXPECT_TRUE(sender->WaitFor(UINT64_MAX).refused());
  EXPECT_TRUE(store->Reader().Streams(1, std::nullopt)->empty());
}

TEST_P(LogStoreContract, RanksAreMergedByTimeAndReadFromAnOffset) {
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "a1\n", 10'000), sender);
  store->Append(Chunk(0, 3, "a2\n", 30'000), sender);
  store->Append(Chunk(1, 0, "b1\n", 20'000), sender);
  store->Append(Chunk(1, 3, "b2\n", 40'000), sender);
  store->Append(Chunk(1, 6, "b3\n", 50'000), sender);
  sender->WaitFor(9);
  store->Stop();
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "a1\nb1\na2\nb2\nb3\n");
  v1::StreamLogsRequest tail = Everything();
  tail.set_tail_lines(3);
  EXPECT_EQ(ReadAll(store->Reader(), tail), "a2\nb2\nb3\n");
  v1::StreamLogsRequest resumed = Everything();
  v1::LogPosition* position = resumed.add_resume();
  position->set_rank(1);
  position->set_stream(v1::LOG_STREAM_STDOUT);
  position->set_offset(4);
  EXPECT_EQ(ReadAll(store->Reader(), resumed), "a1\na2\n2\nb3\n");
  v1::StreamLogsRequest since = Everything();
  since.set_since_ms(40);
  EXPECT_EQ(ReadAll(store->Reader(), since), "b2\nb3\n");
}

TEST_P(LogStoreContract, TheRestOfAJobIsGivenUpUntilMoreOfItComes) {
  const auto store = engine().OpenLogStore();
  EXPECT_FALSE(store->IsRestGivenUp(1));
  store->GiveUpRest(1);
  EXPECT_TRUE(store->IsRestGivenUp(1));
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "late\n"), sender);
  sender->WaitFor(5);
  EXPECT_FALSE(store->IsRestGivenUp(1));
}

TEST_P(LogStoreContract, WhatWasAcknowledgedIsThereAfterAReopening) {
  {
    const auto store = engine().OpenLogStore();
    auto sender = std::make_shared<LogSender>();
    store->Append(Chunk(0, 0, "first\n"), sender);
    EXPECT_EQ(sender->WaitFor(6).durable_offset(), 6u);
  }
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "first\nsecond\n", 2'000, true), sender);
  EXPECT_EQ(sender->WaitFor(14).durable_offset(), 14u) << "the end counts as one more";
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "first\nsecond\n");
  EXPECT_EQ(store->UnendedStreams(), 0u);
}

TEST_P(LogStoreContract, AnEndedStreamTakesNothingMore) {
  const auto store = engine().OpenLogStore();
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "all\n", 1'000, true), sender);
  EXPECT_EQ(sender->WaitFor(5).durable_offset(), 5u);
  store->Append(Chunk(0, 4, "more\n"), sender);
  store->Append(Chunk(1, 0, "other\n"), sender);
  sender->WaitFor(6);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "all\nother\n");
}

TEST_P(LogStoreContract, AFollowerIsToldAndReadsOnWhereItStood) {
  const auto store = engine().OpenLogStore();
  std::promise<bool> told;
  std::once_flag once;
  const WatchToken token = store->Watch(
      1, [&](const LogNews& news) { std::call_once(once, [&] { told.set_value(news.is_new); }); });
  auto sender = std::make_shared<LogSender>();
  const LogKey key{.job = 1};
  const auto cursor = store->Reader().Open(key, 0);
  EXPECT_FALSE(cursor->Peek()->has_value()) << "a stream that is not there has no pieces yet";
  store->Append(Chunk(0, 0, "one\n"), sender);
  EXPECT_TRUE(told.get_future().get());
  sender->WaitFor(4);
  EXPECT_EQ(*cursor->Read(**cursor->Peek()), "one\n");
  cursor->Advance();
  EXPECT_FALSE(cursor->Peek()->has_value());
  store->Append(Chunk(0, 4, "two\n", 9'000, true), sender);
  sender->WaitFor(9);
  EXPECT_EQ(*cursor->Read(**cursor->Peek()), "two\n");
  EXPECT_FALSE(cursor->Ended());
  cursor->Advance();
  EXPECT_TRUE(cursor->Ended());
}

}  // namespace
}  // namespace muster::coordinator
