// Ranks' bytes to the screen: prefixes, partial lines, terminals and pipes.
#include "client/follow/log_printer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "client/text/record_text.h"
#include "common/problem.h"

namespace muster::client {
namespace {

v1::LogRecord Record(uint32_t rank, std::string data, bool end = false,
                     v1::LogStream stream = v1::LOG_STREAM_STDOUT, int64_t time_us = 1) {
  v1::LogRecord record;
  record.set_node("node1");
  record.set_rank(rank);
  record.set_stream(stream);
  record.set_data(std::move(data));
  record.set_end(end);
  record.set_time_us(time_us);
  return record;
}

struct Printed {
  std::string out;
  std::string err;
};

Printed Print(const std::vector<v1::LogRecord>& records, LogPrinter::Options options = {},
              bool tty = false, bool color = false) {
  Terminal terminal;
  terminal.out_is_tty = terminal.err_is_tty = tty;
  terminal.color_out = terminal.color_err = color;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  LogPrinter printer(std::move(options), terminal);
  EXPECT_TRUE(printer.Prepare().ok());
  for (const v1::LogRecord& record : records) printer.Write(record);
  printer.Finish();
  Printed printed;
  printed.out = testing::internal::GetCapturedStdout();
  printed.err = testing::internal::GetCapturedStderr();
  return printed;
}

TEST(LogPrinterTest, LinesOfSeveralRanksKeepTheirPrefixWhereverTheBytesAreCut) {
  const Printed printed =
      Print({Record(0, "one\ntw"), Record(1, "uno\n"), Record(0, "o\n"), Record(1, "last", true)});
  EXPECT_EQ(printed.out, "[node1:0] one\n[node1:1] uno\n[node1:0] two\n[node1:1] last\n");
}

TEST(LogPrinterTest, ALineWithoutAnEndCarriesTheTimeOfItsLastBytes) {
  const int64_t time_us = 1'700'000'000'000'000;
  EXPECT_EQ(
      Print({Record(0, "epoch 3", false, v1::LOG_STREAM_STDOUT, time_us)}, {.timestamps = true})
          .out,
      ClockTime(time_us / 1000) + " [node1:0] epoch 3\n");
}

TEST(LogPrinterTest, WhatAnOlderCoordinatorSentUnsearchedIsSearchedHere) {
  const std::string nul("a\0error\nfine\nterror", 19);
  EXPECT_EQ(Print({Record(0, nul)}, {.query = {.grep = "error$"}}).out,
            "[node1:0] " + nul.substr(0, 7) + "\n[node1:0] terror\n");
  EXPECT_EQ(Print({Record(0, "one\ntwo\n")}, {.query = {.grep = "one.*two|^two$"}}).out,
            "[node1:0] two\n");
  v1::LogRecord rest = Record(0, "ror\nfine\n", true);
  rest.set_offset(10);
  EXPECT_EQ(Print({Record(0, "fine\nan er"), rest}, {.query = {.grep = "error"}}).out,
            "[node1:0] an error\n");
  EXPECT_EQ(Print({Record(0, "a\nb\na\n")}, {.query = {.grep = "a", .count_only = true}}).out,
            "[node1:0] 2\ntotal 2\n");
}

TEST(LogPrinterTest, WhatTheCoordinatorSearchedIsShownAsItComes) {
  v1::LogRecord found = Record(0, "not checked again\n");
  found.set_searched_to(18);
  v1::LogRecord behind = Record(0, "later\n");
  behind.set_offset(90);
  behind.set_searched_to(96);
  EXPECT_EQ(Print({found, behind}, {.query = {.grep = "error"}}).out,
            "[node1:0] not checked again\n[node1:0] later\n");
  EXPECT_EQ(Print({found, behind}, {.query = {.grep = "error", .lines_after = 1}}).out,
            "[node1:0] not checked again\n--\n[node1:0] later\n");
}

TEST(LogPrinterTest, AGrepThatIsNotAnExpressionIsRefused) {
  LogPrinter printer({.query = {.grep = "("}}, Terminal{});
  const absl::Status prepared = printer.Prepare();
  EXPECT_EQ(common::CodeOf(prepared), "JC1019");
  EXPECT_EQ(common::ProblemOf(prepared).what, "--grep \"(\" is not a regular expression");
}

TEST(LogPrinterTest, EqualLinesOfSeveralRanksAreFoldedOnATerminalOnly) {
  const std::vector<v1::LogRecord> records = {
      Record(0, "loading\nloss 1\n"), Record(1, "loading\nloss 2\n"), Record(2, "loading\n")};
  EXPECT_EQ(Print(records, {.fold_ranks = 3}, true).out,
            "[3 ranks] loading\n[node1:0] loss 1\n[node1:1] loss 2\n");
  EXPECT_EQ(Print(records, {.fold_ranks = 4}, true).out,
            "[0-2] loading\n[node1:0] loss 1\n[node1:1] loss 2\n");
  EXPECT_EQ(Print(records, {.fold_ranks = 3}).out,
            "[node1:0] loading\n[node1:0] loss 1\n[node1:1] loading\n[node1:1] loss 2\n"
            "[node1:2] loading\n");
}

TEST(LogPrinterTest, HowManyRanksFoldMayBecomeKnownLater) {
  Terminal terminal;
  terminal.out_is_tty = true;
  testing::internal::CaptureStdout();
  {
    LogPrinter printer({.fold_ranks = 1}, terminal);
    ASSERT_TRUE(printer.Prepare().ok());
    for (const uint32_t rank : {0u, 1u}) printer.Write(Record(rank, "before\n"));
    printer.SetRanks(2);
    for (const uint32_t rank : {0u, 1u}) printer.Write(Record(rank, "of two\n"));
    printer.SetRanks(3);
    for (const uint32_t rank : {0u, 1u, 2u}) printer.Write(Record(rank, "of three\n"));
    printer.Finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "[node1:0] before\n[node1:1] before\n[2 ranks] of two\n[3 ranks] of three\n");
  EXPECT_EQ(Print({Record(0, "a\n"), Record(1, "a\n")}, {.fold_ranks = 0}, true).out,
            "[node1:0] a\n[node1:1] a\n")
      << "0 stays: never";
}

TEST(LogPrinterTest, BothStreamsOfARunAreFoldedOnATerminalEachForItself) {
  const auto err = [](uint32_t rank, std::string data) {
    return Record(rank, std::move(data), false, v1::LOG_STREAM_STDERR);
  };
  const std::vector<v1::LogRecord> records = {Record(0, "loading\n"), err(0, "warning\n"),
                                              Record(1, "loading\n"), err(1, "warning\n")};
  const Printed shown = Print(records, {.split_streams = true, .fold_ranks = 2}, true);
  EXPECT_EQ(shown.out, "[2 ranks] loading\n");
  EXPECT_EQ(shown.err, "[2 ranks] warning\n");
  const Printed piped = Print(records, {.split_streams = true, .fold_ranks = 2});
  EXPECT_EQ(piped.out, "[node1:0] loading\n[node1:1] loading\n");
  EXPECT_EQ(piped.err, "[node1:0] warning\n[node1:1] warning\n");
}

TEST(LogPrinterTest, JsonLinesSayWhereEachLineIsFrom) {
  const std::string out =
      Print({Record(0, "loss \"1\"\n"), Record(1, "oops\n", false, v1::LOG_STREAM_STDERR, 7)},
            {.json_lines = true})
          .out;
  EXPECT_EQ(out,
            "{\"attempt\": 0, \"rank\": 0, \"node\": \"node1\", \"stream\": \"stdout\", "
            "\"time_us\": 1, \"line\": \"loss \\\"1\\\"\"}\n"
            "{\"attempt\": 0, \"rank\": 1, \"node\": \"node1\", \"stream\": \"stderr\", "
            "\"time_us\": 7, \"line\": \"oops\"}\n");
}

TEST(LogPrinterTest, WarningsAndErrorsAreColoredWhereThereAreColors) {
  const std::string out = Print({Record(0, "WARNING: hot\nERROR: broken\n")}, {}, true, true).out;
  EXPECT_NE(out.find("\033[33mWARNING: hot\033[0m\n"), std::string::npos) << out;
  EXPECT_NE(out.find("\033[31mERROR: broken\033[0m\n"), std::string::npos) << out;
  EXPECT_EQ(Print({Record(0, "WARNING: hot\n")}, {}, true).out, "[node1:0] WARNING: hot\n");
}

TEST(LogPrinterTest, TheFirstErrorIsShownWithTheLinesOfItsRankAround) {
  const std::vector<v1::LogRecord> records = {
      Record(0, "0a\n0b\n"), Record(1, "1a\n1b\n1c\n1d\nValueError: bad\n1e\n"),
      Record(0, "KeyError: later\n"), Record(1, "1f\n1g\n1h\n")};
  std::vector<v1::LogRecord> placed = records;
  placed[2].set_offset(6);
  placed[3].set_offset(31);
  const std::string out =
      Print(placed,
            {.query = {.errors = true, .lines_before = 3, .lines_after = 3}, .first_error = true})
          .out;
  EXPECT_EQ(out.find("first error: rank 1 on node1, attempt 0, "), 0u) << out;
  EXPECT_EQ(out.substr(out.find('\n') + 1),
            "[node1:1] 1b\n[node1:1] 1c\n[node1:1] 1d\n[node1:1] ValueError: bad\n"
            "[node1:1] 1e\n[node1:1] 1f\n[node1:1] 1g\n");
}

TEST(LogPrinterTest, InAPipeTheBytesOfALineAreKept) {
  const std::string bytes("\033[31m\xff\x00 tab\t\r", 12);
  EXPECT_EQ(Print({Record(0, bytes + "\n")}).out, "[node1:0] " + bytes + "\n");
}

TEST(LogPrinterTest, OnATerminalControlCharactersAreEscaped) {
  EXPECT_EQ(Print({Record(0, "a\033[2J\x07\n")}, {}, true).out, "[node1:0] a\\x1b[2J\\x07\n");
}

TEST(LogPrinterTest, ColorsPassWhenThereAreColorsAndAreClosed) {
  const std::string out = Print({Record(0, "\033[31mred\033]0;t\n")}, {}, true, true).out;
  EXPECT_NE(out.find("\033[31mred\\x1b]0;t\033[0m\n"), std::string::npos) << out;
}

TEST(LogPrinterTest, AProgressBarIsOneLineInItsLastStateWhereverTheBytesAreCut) {
  const std::vector<v1::LogRecord> bar = {Record(0, "\r1%\r2"), Record(0, "%\r10"),
                                          Record(0, "0%\nnext\n")};
  for (const bool tty : {true, false}) {
    EXPECT_EQ(Print(bar, {}, tty).out, "[node1:0] 100%\n[node1:0] next\n");
    EXPECT_EQ(Print({Record(0, "\r1%\r9%", true)}, {}, tty).out, "[node1:0] 9%\n");
    EXPECT_EQ(Print({Record(0, "\r9%\r   \r", true)}, {}, tty).out, "") << "erased";
    EXPECT_EQ(Print({Record(0, "start\n\rinner 1%\033[A\router 1%\n\rinner 2%\033[A\n"),
                     Record(0, "\r        \r\033[A\router 2%\nend\n")},
                    {}, tty)
                  .out,
              "[node1:0] start\n[node1:0] outer 2%\n[node1:0] end\n");
  }
  EXPECT_EQ(Print({Record(0, "1%\r2%\n")}, {.raw = true}).out, "1%\r2%\n");
  EXPECT_NE(Print({Record(0, "1%\r2%\n")}, {.json_lines = true}).out.find("\"1%\\r2%\""),
            std::string::npos);
  EXPECT_EQ(Print({Record(0, "loss 1\rloss 2\r100%\n")}, {.query = {.grep = "loss"}}).out,
            "[node1:0] loss 2\n");
}

TEST(LogPrinterTest, AFollowedBarInAPipeShowsWhereItIsOnceAMinute) {
  std::vector<v1::LogRecord> records;
  for (int second = 1; second <= 150; ++second) {
    records.push_back(Record(0, "\r" + std::to_string(second) + " of 150", second == 150,
                             v1::LOG_STREAM_STDOUT, second * 1'000'000));
  }
  EXPECT_EQ(Print(records, {.follows = true}).out,
            "[node1:0] 61 of 150\n[node1:0] 121 of 150\n[node1:0] 150 of 150\n");
  EXPECT_EQ(Print(records).out, "[node1:0] 150 of 150\n");
}

TEST(LogPrinterTest, RawIsExactlyTheBytes) {
  LogPrinter::Options options;
  options.raw = true;
  EXPECT_EQ(Print({Record(0, "a\nb"), Record(1, "\xff"), Record(0, "c", true)}, options, true).out,
            "a\nb\xff"
            "c");
}

TEST(LogPrinterTest, StderrGoesToStderrWhenStreamsAreSplit) {
  LogPrinter::Options options;
  options.split_streams = true;
  const Printed printed =
      Print({Record(0, "o\n"), Record(0, "e\n", false, v1::LOG_STREAM_STDERR)}, options);
  EXPECT_EQ(printed.out, "[node1:0] o\n");
  EXPECT_EQ(printed.err, "[node1:0] e\n");
}

TEST(LogPrinterTest, DroppedBytesAndNoticesArePrintedOnStderr) {
  v1::LogRecord dropped = Record(0, "after\n");
  dropped.set_dropped(2'000'000);
  dropped.set_damaged(70);
  v1::LogRecord notice;
  notice.set_notice("attempt 1 starts from step 40");
  const Printed printed = Print({dropped, notice});
  EXPECT_EQ(printed.out, "[node1:0] after\n");
  EXPECT_NE(printed.err.find("(2000000 bytes) of output dropped here"), std::string::npos)
      << printed.err;
  EXPECT_NE(printed.err.find("rank 0 on node1: 70 bytes of output are damaged"), std::string::npos)
      << printed.err;
  EXPECT_NE(printed.err.find("-- attempt 1 starts from step 40\n"), std::string::npos);
}

TEST(LogPrinterTest, ALineWithoutEndDoesNotGrowForever) {
  std::vector<v1::LogRecord> records(4, Record(0, std::string(200'000, 'x')));
  const std::string out = Print(records).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), 'x'), 800'000);
  EXPECT_GE(std::count(out.begin(), out.end(), '\n'), 2);
}

}  // namespace
}  // namespace muster::client
