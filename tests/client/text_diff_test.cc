// Differences of two texts, as diff -u prints them, and as the program itself does.
#include "client/terminal/text_diff.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "client/machine/child_output.h"

namespace muster::client {
namespace {

std::string Numbers(int from, int to) {
  std::string text;
  for (int i = from; i <= to; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(TextDiffTest, EqualTextsHaveNone) { EXPECT_EQ(UnifiedDiff("a\n", "a\n", "a", "b"), ""); }

TEST(TextDiffTest, OneLineInItsContext) {
  EXPECT_EQ(UnifiedDiff(Numbers(1, 9), Numbers(1, 4) + "five\n" + Numbers(6, 9), "a/x", "b/x"),
            "--- a/x\n+++ b/x\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  EXPECT_EQ(UnifiedDiff("", "x\n", "a", "b"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
  EXPECT_EQ(UnifiedDiff("x", "x\n", "a", "b"),
            "--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n");
}

TEST(TextDiffTest, WhatATerminalWouldObeyIsEscapedAndBinariesAreOnlyNamed) {
  EXPECT_EQ(UnifiedDiff("\x1b[2J\n", "\t\n", "a\x1b", "b"),
            "--- a\\x1b\n+++ b\n@@ -1 +1 @@\n-\\x1b[2J\n+\t\n");
  EXPECT_EQ(UnifiedDiff(std::string("\0", 1), "x", "a", "b"), "Binary files a and b differ\n");
}

TEST(TextDiffTest, VeryDifferentTextsAreOneAndThenTheOther) {
  const std::string text = UnifiedDiff(Numbers(1, 3'000), Numbers(4'000, 7'000), "a", "b");
  EXPECT_NE(text.find("@@ -1,3000 +1,3001 @@\n-1\n"), std::string::npos);
  EXPECT_NE(text.find("-3000\n+4000\n"), std::string::npos);
}

TEST(TextDiffTest, AnyTwoTextsPatchIntoEachOther) {
  if (access("/usr/bin/patch", X_OK) != 0) GTEST_SKIP() << "there is no patch";
  char pattern[] = "/tmp/text-diff.XXXXXX";
  const std::string base = mkdtemp(pattern);
  std::mt19937 random(17);
  const auto text = [&] {
    std::string made;
    const int lines = static_cast<int>(random() % 40);
    for (int i = 0; i < lines; ++i)
      made += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
    return made;
  };
  for (int round = 0; round < 60; ++round) {
    const std::string a = text(), b = text();
    std::ofstream(base + "/a") << a;
    std::ofstream(base + "/patch") << UnifiedDiff(a, b, "a", "b");
    if (a == b) continue;
    const auto patched = OutputOfChild(
        {.argv = {"/usr/bin/patch", "-s", "-u", base + "/a", base + "/patch", "-o", base + "/out"},
         .environment = {}});
    ASSERT_TRUE(patched.ok() && patched->status == 0) << UnifiedDiff(a, b, "a", "b");
    std::ifstream out(base + "/out");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(out), {}), b);
  }
  std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace muster::client
