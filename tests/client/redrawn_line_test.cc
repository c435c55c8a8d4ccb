// Which state of a progress bar is shown.
#include "client/terminal/redrawn_line.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

TEST(RedrawnLineTest, OnlyAReturnBeforeTheEndRedraws) {
  EXPECT_FALSE(IsRedrawn(""));
  EXPECT_FALSE(IsRedrawn("a line of Windows\r"));
  EXPECT_TRUE(IsRedrawn("1%\r2%"));
  EXPECT_TRUE(IsRedrawn("\r  0%|"));
}

TEST(RedrawnLineTest, TheLastStateIsShownWithoutWhatMovesTheCursor) {
  EXPECT_EQ(ShownState("\r1%\r2%"), "2%");
  EXPECT_EQ(ShownState("1%\r2%\r"), "2%") << "written with the return behind each state";
  EXPECT_EQ(ShownState("1%\r\033[K2%\033[A\r"), "2%");
  EXPECT_EQ(ShownState("\r100%\r          \r"), "") << "erased at last";
}

TEST(RedrawnLineTest, ASearchGetsTheLastStateThatItFound) {
  const auto wants = [](std::string_view state) { return state.starts_with("loss"); };
  EXPECT_EQ(ShownState("\rloss 1\rloss 2\r100%", wants), "loss 2");
  EXPECT_EQ(ShownState("\r1%\r2%", wants), "2%") << "a line of context";
}

TEST(RedrawnLineTest, PastStatesOfAnOpenLineAreForgotten) {
  OpenLines open;
  for (const char* piece : {"\r1%\r2%\r3", "%", "\r"}) open.Append(piece);
  EXPECT_TRUE(open.HasBar());
  EXPECT_EQ(open.Bytes(), 4u);
  EXPECT_EQ(open.Take(), std::vector<std::string>{"\r3%\r"});
  EXPECT_TRUE(open.Passes("no bar"));
}

TEST(RedrawnLineTest, BarsBelowABarAreLinesOfTheirOwnUntilTheyAreErased) {
  OpenLines open;
  open.Append("\rinner 10%\033[A");  // below a line that has been ended
  open.Append("\router 1%");
  EXPECT_FALSE(open.AtBottom());
  open.MoveDown();
  open.Append("\rinner 20%\033[A\router 2%");
  ASSERT_EQ(open.rows().size(), 2u);
  EXPECT_EQ(ShownState(open.rows()[0]), "outer 2%");
  EXPECT_EQ(ShownState(open.rows()[1]), "inner 20%");
  open.MoveDown();
  open.Append("\r         \r\033[A\router 3%");
  open.MoveDown();
  open.Append("done");
  EXPECT_TRUE(open.AtBottom());
  const std::vector<std::string> lines = open.Take();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(ShownState(lines[0]), "outer 3%");
  EXPECT_EQ(ShownState(lines[1]), "done");
}

TEST(RedrawnLineTest, WithoutRedrawingEveryByteIsKept) {
  OpenLines open(false);
  open.Append("1%\r2%\033[A");
  EXPECT_TRUE(open.AtBottom());
  EXPECT_EQ(open.Take(), std::vector<std::string>{"1%\r2%\033[A"});
}

}  // namespace
}  // namespace muster::client
