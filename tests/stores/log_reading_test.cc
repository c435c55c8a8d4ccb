// Reads logs of many segments and many ranks: by search, from the end, from a time. Counts the bytes
// read, which must be about those shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/logs/log_merge.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

// Bytes that this process has read from files so far.
uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  io >> name >> bytes;
  return bytes;
}

class LogReadingTest : public testing::Test {
 protected:
  // One record for each text, a second apart; the end is a separate record without a time, as
  // workers send it.
  void Write(uint32_t rank, const std::vector<std::string>& texts, bool ends,
             int64_t from_us = kSecondUs) {
    auto file = LogStreamFile::Open(
        paths_, {.job = 1, .attempt = 0, .rank = rank, .stream = v1::LOG_STREAM_STDOUT});
    ASSERT_TRUE(file.ok()) << file.status();
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_TRUE(file->Append(Chunk(rank, file->Written(), texts[i],
                                     from_us + static_cast<int64_t>(i) * kSecondUs, false))
                      .ok());
    }
    if (ends) ASSERT_TRUE(file->Append(Chunk(rank, file->Written(), "", 0, true)).ok());
  }
  // Records of twice the distance of two index entries, each with a line that holds its number and a
  // line of padding.
  static std::vector<std::string> Records(int count) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) {
      std::string text = "record " + std::to_string(i) + "\n" + std::string(130'000, 'x') + "\n";
      texts.push_back(std::move(text));
    }
    return texts;
  }
  std::string Search(const common::LineQuery& query, v1::StreamLogsRequest request = Everything()) {
    LogSearch search(*common::LineMatcher::Make(query), request.since_ms());
    search.EndOpenLines();
    LogMerge merge(reader_, 1, request, &search);
    do {
      EXPECT_TRUE(merge.Discover().ok());
    } while (merge.IsLooking());
    std::string text;
    matches_ = 0;
    while (const auto record = merge.Next()) {
      EXPECT_TRUE(record->has_searched_to());
      if (record->dropped() > 0) text += "<" + std::to_string(record->dropped()) + " lost>";
      text += record->data();
      matches_ += record->matches();
    }
    return text;
  }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
  const LocalLogReader reader_{paths_};
  uint64_t matches_ = 0;
};

TEST_F(LogReadingTest, TheEndOfALogOfManySegmentsCostsWhatIsShown) {
  for (const bool ends : {true, false}) {
    const uint32_t rank = ends ? 0 : 1;
    Write(rank, Records(250), ends);  // 32 MB in four segments
    v1::StreamLogsRequest request = Everything();
    request.add_ranks(rank);
    request.set_tail_lines(4);
    const uint64_t before = BytesRead();
    const std::string text = ReadAll(reader_, request);
    EXPECT_EQ(text.substr(0, 11), "record 248\n") << ends;
    EXPECT_EQ(text.size(), 2u * (11 + 130'001)) << ends;
    EXPECT_LT(BytesRead() - before, 3'000'000u) << ends << ", of 32 MB";
  }
}

TEST_F(LogReadingTest, TheLastLinesOfManyRanksCostOneLookAtEach) {
  for (uint32_t rank = 0; rank < 300; ++rank) {
    std::vector<std::string> lines;
    for (int i = 0; i < 40; ++i) lines.push_back(std::string(300, 'x') + "\n");
    lines.push_back("last of " + std::to_string(rank) + "\n");
    Write(rank, lines, rank % 2 == 0, kSecondUs + rank);
  }
  v1::StreamLogsRequest request = Everything();
  request.set_tail_lines(3);
  const uint64_t before = BytesRead();
  EXPECT_EQ(ReadAll(reader_, request), "last of 297\nlast of 298\nlast of 299\n");
  EXPECT_LT(BytesRead() - before, 300 * 64'000u);
  const uint64_t tail = BytesRead() - before;
  request.set_tail_lines(200);
  ReadAll(reader_, request);
  EXPECT_LT(BytesRead() - before, 4 * tail) << "more lines, not more of each rank";
}

TEST_F(LogReadingTest, AHugeTailIsLookedForInPiecesAndOthersHaveTheirTurns) {
  constexpr int kLines = 4'000;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    std::vector<std::string> lines;
    for (int i = 0; i < kLines; ++i) lines.push_back(std::to_string(i) + "\n");
    Write(rank, lines, true, kSecondUs + rank);
  }
  v1::StreamLogsRequest request = Everything();
  request.set_tail_lines(1'000'000'000);
  LogMerge merge(reader_, 1, request);
  int pieces = 0;
  do {
    ASSERT_TRUE(merge.Discover().ok());
    ++pieces;
  } while (merge.IsLooking());
  EXPECT_GT(pieces, 10);
  int records = 0;
  while (merge.Next().has_value()) ++records;
  EXPECT_EQ(records, 2 * kLines + 2) << "and the two ends";
  request.set_tail_lines(kLines + 1);
  const std::string text = ReadAll(reader_, request);
  EXPECT_EQ(text.substr(0, 15), "1999\n2000\n2000\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), kLines + 1);
}

TEST_F(LogReadingTest, ATimeInALogOfManySegmentsIsFoundThroughTheIndex) {
  for (const bool ends : {true, false}) {
    const uint32_t rank = ends ? 0 : 1;
    Write(rank, Records(250), ends);
    v1::StreamLogsRequest request = Everything();
    request.add_ranks(rank);
    for (const int from : {247, 125}) {
      request.set_since_ms((from + 1) * 1'000);
      const uint64_t before = BytesRead();
      const std::string text = ReadAll(reader_, request);
      EXPECT_EQ(text.substr(0, 11), "record " + std::to_string(from) + "\n");
      const uint64_t shown = text.size();
      // Each record is read once for its head and once for its body.
      EXPECT_LT(BytesRead() - before, 3 * shown + 2'000'000u) << ends << " " << from;
    }
  }
}

TEST_F(LogReadingTest, ALastLineWithoutItsNewlineIsALine) {
  Write(0, {"one\n", "two\nthr", "ee\nopen"}, false);
  v1::StreamLogsRequest request = Everything();
  request.set_tail_lines(1);
  EXPECT_EQ(ReadAll(reader_, request), "open");
  request.set_tail_lines(2);
  EXPECT_EQ(ReadAll(reader_, request), "three\nopen");
  request.set_tail_lines(9);
  EXPECT_EQ(ReadAll(reader_, request), "one\ntwo\nthree\nopen");
}

TEST_F(LogReadingTest, ASearchFindsLinesAcrossRecordsAndSegmentsInTheOrderOfTime) {
  Write(0, {"one\nneed", "le a\ntwo\n", "needle b\n"}, true);
  Write(1, {"needle c\n", "x\nneedle d"}, true, kSecondUs + 1);
  EXPECT_EQ(Search({.grep = "needle"}), "needle c\nneedle a\nneedle dneedle b\n");
  EXPECT_EQ(matches_, 4u);
  EXPECT_EQ(Search({.grep = "^needle"}), "needle c\nneedle a\nneedle dneedle b\n");
  EXPECT_EQ(Search({.grep = "needle", .count_only = true}), "");
  EXPECT_EQ(matches_, 4u);
  v1::StreamLogsRequest since = Everything();
  since.set_since_ms(3'000);
  EXPECT_EQ(Search({.grep = "needle"}, since), "needle b\n");
  v1::StreamLogsRequest tail = Everything();
  tail.set_tail_lines(2);
  EXPECT_EQ(Search({.grep = "needle"}, tail), "needle dneedle b\n");
}

TEST_F(LogReadingTest, ASearchOfManySegmentsFindsWhatASearchOfTheBytesFinds) {
  std::mt19937 random(7);
  std::string all;
  std::vector<std::string> texts;
  while (all.size() < 20'000'000) {
    std::string text;
    const size_t size = 1 + random() % 100'000;
    while (text.size() < size) {
      text += std::string(random() % 200, 'a') + (random() % 100 == 0 ? "needle" : "noodle");
      if (random() % 3 == 0) text += '\n';
    }
    all += text;
    texts.push_back(std::move(text));
  }
  Write(0, texts, true);
  std::string expected;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size() - 1);
    const std::string line = all.substr(at, end + 1 - at);
    if (line.find("needle") != line.npos) expected += line;
    at = end + 1;
  }
  EXPECT_TRUE(Search({.grep = "needle"}) == expected);
  EXPECT_TRUE(Search({.grep = "n[e]+dle"}) == expected);
  EXPECT_TRUE(Search({.grep = "needle", .invert = true}).size() == all.size() - expected.size());
}

TEST_F(LogReadingTest, AGapEndsALineAndIsReported) {
  auto file = LogStreamFile::Open(
      paths_, {.job = 1, .attempt = 0, .rank = 0, .stream = v1::LOG_STREAM_STDOUT});
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append(Chunk(0, 0, "x need", kSecondUs)).ok());
  v1::LogChunk behind = Chunk(0, 16, "le\nneedle\n", 2 * kSecondUs, true);
  behind.set_dropped(10);
  ASSERT_TRUE(file->Append(behind).ok());
  ASSERT_TRUE(file->File().Sync().ok());
  EXPECT_EQ(Search({.grep = "need|le"}), "x need<10 lost>le\nneedle\n");
}

TEST_F(LogReadingTest, AFollowerReadsOnlyTheStreamsThatGrew) {
  for (uint32_t rank = 0; rank < 200; ++rank) Write(rank, {"hello\n"}, false);
  LogMerge merge(reader_, 1, Everything());
  ASSERT_TRUE(merge.Discover().ok());
  while (merge.Next().has_value()) {
  }
  Write(7, {"news\n"}, false);
  const uint64_t before = BytesRead();
  merge.HaveNews({LogKey{1, 0, 7, v1::LOG_STREAM_STDOUT}});
  const auto record = merge.Next();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->data(), "news\n");
  EXPECT_FALSE(merge.Next().has_value());
  EXPECT_LT(BytesRead() - before, 20'000u);
}

}  // namespace
}  // namespace muster::coordinator
