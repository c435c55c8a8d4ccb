// Ranks' bytes to the screen: prefixes, partial lines, terminals and pipes.
#include "client/log_printer.h"

#include <gtest/gtest.h>

#include "client/record_text.h"
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

TEST(LogPrinterTest, GrepLooksBehindANulAndNotBehindTheLine) {
  const std::string nul("a\0error\nfine\nterror", 19);
  EXPECT_EQ(Print({Record(0, nul)}, {.grep = "error$"}).out,
            "[node1:0] " + nul.substr(0, 7) + "\n[node1:0] terror\n");
  EXPECT_EQ(Print({Record(0, "one\ntwo\n")}, {.grep = "one.*two|^two$"}).out, "[node1:0] two\n");
}

TEST(LogPrinterTest, AGrepThatIsNoExpressionIsRefused) {
  LogPrinter printer({.grep = "("}, Terminal{});
  const absl::Status prepared = printer.Prepare();
  EXPECT_EQ(common::CodeOf(prepared), "JC1004");
  EXPECT_EQ(common::ProblemOf(prepared).what.find("--grep \"(\" is not an extended regular"), 0u);
}

TEST(LogPrinterTest, InAPipeTheBytesOfALineAreKept) {
  const std::string bytes("\033[31m\xff\x00\r tab\t", 12);
  EXPECT_EQ(Print({Record(0, bytes + "\n")}).out, "[node1:0] " + bytes + "\n");
}

TEST(LogPrinterTest, OnATerminalControlCharactersAreEscaped) {
  EXPECT_EQ(Print({Record(0, "a\033[2J\x07\n")}, {}, true).out, "[node1:0] a\\x1b[2J\\x07\n");
}

TEST(LogPrinterTest, ColorsPassWhenThereAreColorsAndAreClosed) {
  const std::string out = Print({Record(0, "\033[31mred\033]0;t\n")}, {}, true, true).out;
  EXPECT_NE(out.find("\033[31mred\\x1b]0;t\033[0m\n"), std::string::npos) << out;
}

TEST(LogPrinterTest, AProgressBarShowsItsLastStateOnATerminalAndAllBytesInAPipe) {
  const std::vector<v1::LogRecord> bar = {Record(0, "1%\r2%\r100%\n")};
  EXPECT_EQ(Print(bar, {}, true).out, "[node1:0] 100%\n");
  EXPECT_EQ(Print(bar).out, "[node1:0] 1%\r2%\r100%\n");
  const std::vector<v1::LogRecord> slow = {
      Record(0, "10%\r20%\r", false, v1::LOG_STREAM_STDOUT, 5'000'000),
      Record(0, "21%\r22%\r", false, v1::LOG_STREAM_STDOUT, 5'100'000),
      Record(0, "99%\r", true, v1::LOG_STREAM_STDOUT, 7'000'000)};
  EXPECT_EQ(Print(slow, {}, true).out, "[node1:0] 20%\n[node1:0] 99%\n");
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

TEST(LogPrinterTest, DroppedBytesAndNoticesAreSaidOnStderr) {
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

TEST(LogPrinterTest, GrepKeepsMatchingLinesAndABadExpressionIsAnError) {
  LogPrinter::Options options;
  options.grep = "err|warn";
  EXPECT_EQ(Print({Record(0, "fine\nan error\nwarning\n")}, options).out,
            "[node1:0] an error\n[node1:0] warning\n");
  options.grep = "(";
  EXPECT_FALSE(LogPrinter(options, Terminal{}).Prepare().ok());
}

TEST(LogPrinterTest, ALineWithoutEndDoesNotGrowForEver) {
  std::vector<v1::LogRecord> records(4, Record(0, std::string(200'000, 'x')));
  const std::string out = Print(records).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), 'x'), 800'000);
  EXPECT_GE(std::count(out.begin(), out.end(), '\n'), 2);
}

}  // namespace
}  // namespace muster::client
