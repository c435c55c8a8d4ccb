// What a job's quota removes of its output, and what readers are told in its place.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/base/file_tree.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/segment_check.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"

namespace muster::coordinator {
namespace {

constexpr uint64_t kQuota = 2 << 20;
constexpr size_t kLine = 100;

// Numbered lines of equal length.
std::string Lines(uint64_t first, uint64_t count) {
  std::string text;
  for (uint64_t line = first; line < first + count; ++line) {
    std::string one = std::to_string(line);
    text += one + std::string(kLine - 1 - one.size(), '.') + "\n";
  }
  return text;
}

class LogQuotaTest : public testing::Test {
 protected:
  void Open(uint64_t quota = kQuota) {
    store_ = nullptr;
    store_ = std::make_unique<LocalLogStore>(paths_, DiskUse{.quota_bytes = quota});
  }
  // 300 lines in each chunk, up to `lines` in all.
  void Print(uint32_t rank, uint64_t lines, uint32_t attempt = 0, bool ends = false) {
    auto sender = std::make_shared<LogSender>();
    uint64_t& printed = printed_[{attempt, rank}];
    while (printed < lines) {
      const uint64_t count = std::min<uint64_t>(300, lines - printed);
      v1::LogChunk chunk =
          Chunk(rank, printed * kLine, Lines(printed, count), static_cast<int64_t>(++time_us_),
                ends && printed + count == lines);
      chunk.set_attempt(attempt);
      store_->Append(chunk, sender);
      printed += count;
    }
    EXPECT_GE(sender->WaitFor(lines * kLine).durable_offset(), lines * kLine);
  }
  uint64_t Kept() const { return BytesBelow(dir_.path(), "logs/1"); }
  std::string Read(v1::StreamLogsRequest request = Everything()) const {
    return ReadAll(LocalLogReader(paths_), request);
  }
  // The text without its mark. `removed`: the number in it.
  std::string Rest(uint64_t& removed) const {
    const std::string text = Read();
    const size_t end = text.find('>');
    EXPECT_EQ(text.substr(0, 1), "<") << text.substr(0, 200);
    removed = std::stoull(text.substr(1));
    EXPECT_NE(text.substr(0, end).find("over quota"), std::string::npos) << text.substr(0, end);
    return text.substr(end + 1);
  }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> printed_;
  uint64_t time_us_ = 1'000;
  std::unique_ptr<LocalLogStore> store_;
};

TEST_F(LogQuotaTest, TheNewestIsKeptAndAMarkSaysHowMuchWentBefore) {
  Open();
  Print(0, 100'000);
  EXPECT_LE(Kept(), kQuota + (kQuota >> 3));
  EXPECT_GE(Kept(), kQuota / 2) << "no more goes than has to";
  uint64_t removed = 0;
  const std::string rest = Rest(removed);
  EXPECT_EQ(removed + rest.size(), 100'000 * kLine) << "every byte is there or counted";
  ASSERT_EQ(removed % kLine, 0u);
  EXPECT_EQ(rest, Lines(removed / kLine, 100'000 - removed / kLine));
}

TEST_F(LogQuotaTest, LastLinesAndTimesAreFoundInWhatRemains) {
  Open();
  Print(0, 100'000);
  const LocalLogReader reader(paths_);
  const LogKey key{.job = 1};
  EXPECT_EQ(*reader.OffsetOfLastLines(key, 10), (100'000 - 10) * kLine);
  EXPECT_EQ(*reader.OffsetOfLastLines(key, 90'000), 0u) << "all of them, with the mark";
  EXPECT_GT(*reader.OffsetSince(key, static_cast<int64_t>(time_us_)), 99'000 * kLine);
  EXPECT_LT(*reader.OffsetSince(key, 1), 100'000 * kLine);
  const auto backwards = reader.OpenAtEnd(key);
  uint64_t lines = 0;
  while (const auto piece = *backwards->Previous()) lines += piece->lines;
  uint64_t removed = 0;
  Rest(removed);
  EXPECT_EQ(lines, 100'000 - removed / kLine);
}

TEST_F(LogQuotaTest, AReaderInTheMiddleOfWhatGoesIsToldHowMuchItMissed) {
  Open();
  Print(0, 10'000);
  const LocalLogReader reader(paths_);
  const auto cursor = reader.Open({.job = 1}, 0);
  uint64_t seen = 0;
  for (int piece = 0; piece < 5; ++piece) {
    const auto next = *cursor->Peek();
    ASSERT_TRUE(next.has_value());
    seen += next->length;
    cursor->Advance();
  }
  cursor->Forget();
  Print(0, 100'000);
  uint64_t missed = 0, damaged = 0;
  while (true) {
    const auto next = cursor->Peek();
    ASSERT_TRUE(next.ok()) << next.status();
    if (!next->has_value()) break;
    EXPECT_EQ((*next)->over_quota, (*next)->dropped > 0);
    missed += (*next)->dropped;
    damaged += (*next)->damaged;
    seen += (*next)->length;
    cursor->Advance();
  }
  EXPECT_EQ(damaged, 0u);
  EXPECT_EQ(seen + missed, 100'000 * kLine);
}

TEST_F(LogQuotaTest, AfterAReopeningItGoesOnWhereItStood) {
  Open();
  Print(0, 60'000);
  Open();
  Print(0, 120'000, 0, true);
  EXPECT_LE(Kept(), kQuota + (kQuota >> 3));
  uint64_t removed = 0;
  const std::string rest = Rest(removed);
  EXPECT_EQ(removed + rest.size(), 120'000 * kLine);
  EXPECT_EQ(store_->UnendedStreams(), 0u);
  store_ = nullptr;
  SegmentTotals totals;
  EXPECT_TRUE(CheckSegments(
                  paths_,
                  [](const SegmentFinding& finding) {
                    ADD_FAILURE() << finding.path << " " << finding.what;
                  },
                  &totals)
                  .ok());
}

TEST_F(LogQuotaTest, EarlierAttemptsGoFirstWithTheirEnds) {
  Open();
  Print(0, 15'000, 0, true);
  Print(1, 200, 0, true);
  Print(0, 30'000, 1);
  EXPECT_LE(Kept(), kQuota + (kQuota >> 3));
  const LocalLogReader reader(paths_);
  const auto cursor = reader.Open({.job = 1, .attempt = 0, .rank = 0}, 0);
  const auto mark = *cursor->Peek();
  ASSERT_TRUE(mark.has_value());
  EXPECT_TRUE(mark->over_quota);
  uint64_t seen = 0;
  while (const auto piece = *cursor->Peek()) {
    seen += piece->dropped + piece->length;
    cursor->Advance();
  }
  EXPECT_EQ(seen, 15'000 * kLine);
  EXPECT_TRUE(cursor->Ended()) << "also of what is gone";
}

TEST_F(LogQuotaTest, ManyRanksTogetherStayWithinIt) {
  Open();
  for (uint64_t lines = 3'000; lines <= 12'000; lines += 3'000) {
    for (uint32_t rank = 0; rank < 16; ++rank) Print(rank, lines);
  }
  EXPECT_LE(Kept(), 2 * kQuota) << "one segment of each stream is being written";
  for (uint32_t rank = 0; rank < 16; ++rank) {
    EXPECT_GE(*LocalLogReader(paths_).OffsetOfLastLines({.job = 1, .rank = rank}, 100),
              (12'000 - 100) * kLine);
  }
}

TEST_F(LogQuotaTest, AJobMayKeepLessThanAnyAndNoneMeansAll) {
  Open();
  store_->KeepAtMost(1, 1 << 20);
  Print(0, 40'000);
  EXPECT_LE(Kept(), (1u << 20) + (1 << 17));
  Open(0);
  Print(0, 80'000);
  EXPECT_GE(Kept(), 4'000'000u) << "no quota any more";
}

}  // namespace
}  // namespace muster::coordinator
