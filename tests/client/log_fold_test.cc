// Equal lines of several ranks become one, in order and within bounds.
#include "client/follow/log_fold.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace muster::client {
namespace {

class LogFoldTest : public testing::Test {
 protected:
  void Add(uint32_t rank, const std::string& text, int64_t time_us = 0, int64_t now_ms = 0,
           uint32_t attempt = 0) {
    FoldedLine line{.text = text, .time_us = time_us, .attempt = attempt, .ranks = {rank}};
    fold_.Add(std::move(line), now_ms, &out_);
  }
  std::string Shown() {
    std::string text;
    for (const FoldedLine& line : out_) text += RanksText(line.ranks, 4) + line.text + " ";
    out_.clear();
    return text;
  }

  LogFold fold_{4};
  std::vector<FoldedLine> out_;
};

TEST_F(LogFoldTest, ALineOfAllRanksIsShownAtOnce) {
  for (uint32_t rank = 0; rank < 4; ++rank) Add(rank, "go");
  EXPECT_EQ(Shown(), "[4 ranks]go ");
  EXPECT_FALSE(fold_.DueMs().has_value());
}

TEST_F(LogFoldTest, ALineWaitsForItsTwinsAQuarterOfASecondAtMost) {
  Add(0, "go", 0, 1'000);
  Add(2, "go", 0, 1'100);
  EXPECT_EQ(fold_.DueMs(), 1'250);
  fold_.Due(1'249, &out_);
  EXPECT_EQ(Shown(), "");
  fold_.Due(1'250, &out_);
  EXPECT_EQ(Shown(), "[0,2]go ");
  Add(3, "go", 0, 1'300);
  fold_.Flush(&out_);
  EXPECT_EQ(Shown(), "[3]go ") << "one that comes too late stands alone";
}

TEST_F(LogFoldTest, LinesWrittenMoreThanASecondApartAreNotTwins) {
  Add(0, "go", 0);
  Add(1, "go", 1'000'001);
  fold_.Flush(&out_);
  EXPECT_EQ(Shown(), "[0]go [1]go ");
}

TEST_F(LogFoldTest, TheOrderOfEachRanksLinesStays) {
  Add(0, "a");
  Add(0, "b");
  Add(1, "b");
  Add(1, "a");
  fold_.Flush(&out_);
  EXPECT_EQ(Shown(), "[0]a [0,1]b [1]a ");
}

TEST_F(LogFoldTest, LinesOfEachRankBetweenEqualOnesComeOutBetweenThem) {
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Add(rank, "a");
    Add(rank, "rank " + std::to_string(rank));
    if (rank != 2) Add(rank, "b");
    Add(rank, "end " + std::to_string(rank));
  }
  fold_.Flush(&out_);
  EXPECT_EQ(
      Shown(),
      "[4 ranks]a [0]rank 0 [1]rank 1 [3]rank 3 [0,1,3]b [0]end 0 [1]end 1 [2]rank 2 [2]end 2 "
      "[3]end 3 ");
}

TEST_F(LogFoldTest, ALineThatWaitsBehindLaterOnesIsNotLateForThem) {
  Add(0, "b", 0, 1'000);
  Add(1, "x", 0, 1'200);
  Add(1, "b", 0, 1'210);
  EXPECT_EQ(fold_.DueMs(), 1'250);
  fold_.Due(1'250, &out_);
  EXPECT_EQ(Shown(), "[1]x [0,1]b ");
}

TEST_F(LogFoldTest, RandomLinesKeepTheirOrderWithinEachRank) {
  std::mt19937 random(3);
  LogFold fold(8);
  std::vector<std::string> written(8), shown(8);
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t rank = random() % 8;
    const std::string text(1, static_cast<char>('a' + random() % 6));
    written[rank] += text;
    fold.Add({.text = text, .time_us = i * 10, .ranks = {rank}}, i / 40, &out_);
  }
  fold.Flush(&out_);
  for (const FoldedLine& line : out_) {
    for (const uint32_t rank : line.ranks) shown[rank] += line.text;
  }
  EXPECT_EQ(shown, written);
  EXPECT_LT(out_.size(), 19'900u) << "where order allows it, equal lines were folded";
}

TEST_F(LogFoldTest, ARepeatedLineOfOneRankIsRepeated) {
  Add(0, "a");
  Add(0, "a");
  Add(1, "a");
  Add(1, "a");
  fold_.Flush(&out_);
  EXPECT_EQ(Shown(), "[0,1]a [0,1]a ");
}

TEST_F(LogFoldTest, LinesThatDifferInANumberAndAttemptsAreKeptApart) {
  Add(0, "step 1");
  Add(1, "step 2");
  Add(2, "step 1", 0, 0, 1);
  fold_.Flush(&out_);
  EXPECT_EQ(Shown(), "[0]step 1 [1]step 2 [2]step 1 ");
}

TEST_F(LogFoldTest, AThousandRanksWithDifferentLinesAreBounded) {
  LogFold fold(1000);
  size_t shown = 0;
  for (int line = 0; line < 100; ++line) {
    for (uint32_t rank = 0; rank < 1000; ++rank) {
      FoldedLine one{.text = std::to_string(rank) + std::string(100, 'x') + std::to_string(line),
                     .ranks = {rank}};
      fold.Add(std::move(one), 0, &out_);
      shown += out_.size();
      out_.clear();
    }
  }
  EXPECT_GE(shown, 100'000 - LogFold::kWaitingLinesMax);
  fold.Flush(&out_);
  EXPECT_EQ(shown + out_.size(), 100'000u);
}

TEST(RanksTextTest, ManyRangesAreOnlyCounted) {
  EXPECT_EQ(RanksText({3, 0, 1, 2}, 16), "[0-3]");
  EXPECT_EQ(RanksText({0, 1, 2, 3, 7}, 16), "[0-3,7]");
  EXPECT_EQ(RanksText({1, 3, 5, 7, 9, 11, 13, 15, 17}, 100), "[9 of 100 ranks]");
}

}  // namespace
}  // namespace muster::client
