// The bars below the lines of a terminal.
#include "client/terminal/bar_block.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

TEST(BarBlockTest, ABarReplacesItsLastState) {
  BarBlock block({.width = 40, .height = 24});
  EXPECT_EQ(block.Erase(), "");
  EXPECT_EQ(block.Draw({{"[n:0] ", 6, "1%"}, {"[n:1] ", 6, "2%"}}), "[n:0] 1%\n[n:1] 2%\n");
  EXPECT_EQ(block.Draw({{"[n:0] ", 6, "3%"}}), "\033[2A\r\033[J[n:0] 3%\n");
  EXPECT_EQ(block.Draw({}), "\033[1A\r\033[J");
  EXPECT_EQ(block.Erase(), "");
}

TEST(BarBlockTest, NoBarWrapsOrSteersTheTerminal) {
  BarBlock block({.width = 12, .height = 24});
  EXPECT_EQ(block.Draw({{"\033[36m[n:0]\033[0m ", 6, "12345678"}}), "\033[36m[n:0]\033[0m 1234…\n");
  EXPECT_EQ(block.Erase(), "\033[1A\r\033[J");
  EXPECT_EQ(block.Draw({{"", 0, "\033[2J\t"}}), "\\x1b[2J\\x09\n");
}

TEST(BarBlockTest, OfManyBarsSomeAreShownAndTheOthersCounted) {
  BarBlock block({.width = 80, .height = 8});
  EXPECT_EQ(block.Draw(std::vector<Bar>(7, Bar{"", 0, "x"})), "x\nx\nx\nx\n… and 3 more bars\n");
  EXPECT_EQ(block.Erase(), "\033[5A\r\033[J");
}

}  // namespace
}  // namespace muster::client
