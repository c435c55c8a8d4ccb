// The progress bar's text, and its output on a terminal and a pipe, with a fake clock.
#include "muster/tracking/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "tracking/bar_text.h"

namespace muster {
namespace {

const std::vector<std::string> kPostfix = {"loss 0.431"};
const BarState kState = {.description = "train",
                         .unit = "",
                         .postfix = kPostfix,
                         .step = 420,
                         .total = 1000,
                         .steps_timed = 420,
                         .seconds = 8.2};

TEST(BarText, FitsEightyColumns) {
  EXPECT_EQ(bar_text(kState, 80, true),
            "train  42% |█████████████                  | 420/1000 51.2/s eta 0:11 loss 0.431");
  EXPECT_EQ(bar_text(kState, 80, false),
            "train  42% |#############..................| 420/1000 51.2/s eta 0:11 loss 0.431");
  EXPECT_EQ(bar_text(kState, 200, false),
            "train  42% |################........................| 420/1000 51.2/s eta 0:11 loss "
            "0.431");
}

TEST(BarText, GivesUpThePostfixThenTheBarThenTheDescription) {
  EXPECT_EQ(bar_text(kState, 54, false), "train  42% |##...| 420/1000 51.2/s eta 0:11 loss 0.431");
  EXPECT_EQ(bar_text(kState, 50, false), "train  42% |#####.......| 420/1000 51.2/s eta 0:11");
  EXPECT_EQ(bar_text(kState, 40, false), "train  42% 420/1000 51.2/s eta 0:11");
  EXPECT_EQ(bar_text(kState, 25, false), "420/1000 51.2/s eta 0:11");
  EXPECT_EQ(bar_text(kState, 10, false), "420/1000 5");
}

TEST(BarText, NeverIsWiderThanTheTerminal) {
  BarState state = kState;
  state.description = "\xc3\xa4\xc3\xa4\xc3\xa4";
  for (int columns = 1; columns < 120; ++columns) {
    const std::string text = bar_text(state, columns, true);
    EXPECT_LE(
        std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }),
        columns);
  }
}

TEST(BarText, KnowsTheBeginningTheEndAndTheUnknown) {
  BarState state = {.total = 8};
  EXPECT_EQ(bar_text(state, 40, false), "  0% |.............................| 0/8");
  state = {.step = 8, .total = 8, .steps_timed = 8, .seconds = 4};
  EXPECT_EQ(bar_text(state, 40, false), "100% |#################| 8/8 2/s in 0:04");
  state = {
      .description = "read", .unit = "batch", .step = 12345, .steps_timed = 12345, .seconds = 5};
  EXPECT_EQ(bar_text(state, 80, true), "read 12345 2469 batch/s");
  state = {.step = 2, .total = 100, .steps_timed = 2, .seconds = 50};
  EXPECT_EQ(plain_text(state), "2/100 2% 25s/step eta 40:50");
  state = {.step = 9, .total = 8, .steps_timed = 9, .seconds = 1};  // more than the total
  EXPECT_EQ(plain_text(state), "9/8 100% 9/s in 0:01");
}

TEST(BarText, SpellsDurations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(7.4), "0:07");
  EXPECT_EQ(duration_text(200), "3:20");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(2 * 86400 + 3 * 3600 + 245), "2d 03:04:05");
}

// What has arrived at fd, which is in non-blocking mode.
std::string arrived(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t bytes; (bytes = ::read(fd, piece, sizeof(piece))) > 0;) text.append(piece, bytes);
  return text;
}

class ProgressBarTest : public ::testing::Test {
 protected:
  // A terminal of 60 columns, later 40, without newline translation.
  void open_terminal() {
    int reader = -1, writer = -1;
    winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
    termios raw{};
    ::cfmakeraw(&raw);
    ASSERT_EQ(::openpty(&reader, &writer, nullptr, &raw, &size), 0);
    adopt(reader, writer);
  }
  void open_pipe() {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    adopt(ends[0], ends[1]);
  }
  void adopt(int reader, int writer) {
    reader_.reset(reader);
    writer_.reset(writer);
    ::fcntl(reader, F_SETFL, O_NONBLOCK);
  }
  ProgressBarOptions options(int64_t total) {
    return {
        .total = total, .description = "train", .fd = writer_.get(), .utf8 = false, .now = [this] {
          return now_;
        }};
  }
  std::string shown() { return arrived(reader_.get()); }

  FileDescriptor reader_, writer_;
  double now_ = 100;
};

const std::string kErase = "\r\x1b[K";

TEST_F(ProgressBarTest, IsDrawnOverItselfOnATerminal) {
  open_terminal();
  ProgressBar bar(options(1000), Topology());
  EXPECT_EQ(shown(), kErase + "train   0% |" + std::string(39, '.') + "| 0/1000");
  now_ += 2;
  bar.set_postfix({{"loss", 0.4312}, {"lr", 1e-5}});
  bar.update(100);
  EXPECT_EQ(shown(), kErase + "train  10% |#..........| 100/1000 50/s eta 0:18 loss 0.4312");
  now_ += 0.05;
  bar.update();
  EXPECT_EQ(shown(), "");  // too early to redraw
  now_ += 17.95;
  bar.set(1000);
  bar.close();
  bar.update();
  const std::string last = kErase + "train 100% |###########| 1000/1000 50/s in 0:20 loss 0.4312";
  EXPECT_EQ(shown(), last + last + "\n");
}

TEST_F(ProgressBarTest, FollowsTheWidthOfTheTerminal) {
  open_terminal();
  ProgressBar bar(options(10), Topology());
  shown();
  const winsize narrow{.ws_row = 24, .ws_col = 30, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(writer_.get(), TIOCSWINSZ, &narrow), 0);
  now_ += 1;
  bar.update(5);
  EXPECT_EQ(shown(), kErase + "train  50% 5/10 5/s eta 0:01");
}

TEST_F(ProgressBarTest, GetsOutOfTheWayOfOtherLines) {
  open_terminal();
  ProgressBar bar(options(10), Topology());
  const std::string drawing = shown();
  bar.write("a line");
  EXPECT_EQ(shown(), kErase + "a line\n" + drawing);
  bar.interrupt([&] { EXPECT_EQ(shown(), kErase); });
  EXPECT_EQ(shown(), drawing);
  bar.close();
  shown();
  bar.write("after it");
  EXPECT_EQ(shown(), kErase + "after it\n");
}

TEST_F(ProgressBarTest, CanLeaveNothingBehind) {
  open_terminal();
  ProgressBarOptions fleeting = options(10);
  fleeting.leave = false;
  {
    ProgressBar bar(fleeting, Topology());
    shown();
  }
  EXPECT_EQ(shown(), kErase);
}

TEST_F(ProgressBarTest, IsAnOccasionalLineInAPipe) {
  open_pipe();
  {
    ProgressBar bar(options(1000), Topology());
    for (int step = 0; step < 1000; ++step) {
      now_ += 0.01;
      bar.update();
    }
  }
  std::string expected;
  for (int tenth = 1; tenth <= 9; ++tenth) {
    expected += "train " + std::to_string(100 * tenth) + "/1000 " + std::to_string(10 * tenth) +
                "% 100/s eta 0:0" + std::to_string(10 - tenth) + "\n";
  }
  EXPECT_EQ(shown(), expected + "train 1000/1000 100% 100/s in 0:10\n");
}

TEST_F(ProgressBarTest, WritesALineToAPipeWhenATenthTakesLong) {
  open_pipe();
  ProgressBarOptions slow = options(0);
  slow.line_seconds = 30;
  ProgressBar bar(slow, Topology());
  for (int step = 0; step < 7; ++step) {
    now_ += 10;
    bar.update();
  }
  EXPECT_EQ(shown(), "train 3 0.1/s\ntrain 6 0.1/s\n");
  bar.write("a line");
  EXPECT_EQ(shown(), "a line\n");
  bar.close();
  EXPECT_EQ(shown(), "train 7 0.1/s\n");
}

TEST_F(ProgressBarTest, CountsTheRateOfAResumedRunFromWhereItBegan) {
  open_pipe();
  ProgressBarOptions resumed = options(1000);
  resumed.initial = 500;
  ProgressBar bar(resumed, Topology());
  now_ += 10;
  bar.set(600);
  EXPECT_EQ(shown(), "train 600/1000 60% 10/s eta 0:40\n");
}

TEST_F(ProgressBarTest, OnlyTheLocalMainProcessShowsIt) {
  open_pipe();
  Topology second;
  second.local_rank = 1;
  {
    ProgressBar bar(options(2), second);
    bar.update(2);
    bar.write("lines come through");
  }
  EXPECT_EQ(shown(), "lines come through\n");
}

}  // namespace
}  // namespace muster
