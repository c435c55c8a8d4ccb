// What is sent to a terminal to change its screen.
#include "client/terminal/screen_frame.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

using Lines = std::vector<std::string>;
constexpr char kBegin[] = "\033[?2026h";
constexpr char kEnd[] = "\033[?2026l";

std::string InOne(const std::string& text) { return kBegin + text + kEnd; }

TEST(ScreenFrameTest, TheFirstFrameClearsAndWritesAll) {
  EXPECT_EQ(FrameUpdate({}, {"a", "b"}), InOne("\033[H\033[J\033[1;1Ha\033[2;1Hb"));
}

TEST(ScreenFrameTest, OnlyLinesThatDifferAreWritten) {
  const Lines before = {"JOB  AGE", "one  1s", "two  9s", "keys"};
  EXPECT_EQ(FrameUpdate(before, before), "") << "nothing is sent, so nothing flickers";
  EXPECT_EQ(FrameUpdate(before, {"JOB  AGE", "one  2s", "two  9s", "keys"}),
            InOne("\033[2;1Hone  2s"));
}

TEST(ScreenFrameTest, WhatIsShorterIsClearedBehindAndOnlyThen) {
  EXPECT_EQ(FrameUpdate({"abc"}, {"ab"}), InOne("\033[1;1Hab\033[K"));
  // Behind a full row the cursor still stands on its last character, which would be cleared.
  EXPECT_EQ(FrameUpdate({"ab"}, {"abc"}), InOne("\033[1;1Habc"));
  EXPECT_EQ(FrameUpdate({"abcdef"}, {"\033[1mabc\033[0m"}),
            InOne("\033[1;1H\033[1mabc\033[0m\033[K"))
      << "colors have no width";
  EXPECT_EQ(FrameUpdate({"a", "b", "c"}, {"a"}), InOne("\033[2;1H\033[J"));
}

TEST(ScreenFrameTest, LinesAreThoseOfTheText) {
  EXPECT_EQ(FrameLines("a\n\nb"), (Lines{"a", "", "b"}));
  EXPECT_EQ(FrameLines("a\n"), (Lines{"a"}));
  EXPECT_EQ(FrameLines(""), Lines());
}

}  // namespace
}  // namespace muster::client
