// gitignore(5), line by line.
#include "tree/ignore.h"

#include "gtest/gtest.h"

namespace muster::tree {
namespace {

bool Hit(std::string_view line, std::string_view path, bool is_directory = false) {
  const auto pattern = IgnorePattern::Parse(line);
  return pattern && pattern->Matches(path, is_directory);
}

TEST(TreeIgnore, ANameWithoutASlashMatchesAtAnyDepth) {
  EXPECT_TRUE(Hit("foo", "foo"));
  EXPECT_TRUE(Hit("foo", "a/b/foo"));
  EXPECT_FALSE(Hit("foo", "a/foo/b"));  // but nothing is looked at below an ignored directory
  EXPECT_FALSE(Hit("foo", "foobar"));
  EXPECT_TRUE(Hit("*.py[co]", "a/x.pyc"));
  EXPECT_TRUE(Hit("*.pyc", "a/.pyc"));
  EXPECT_FALSE(Hit("*.pyc", "a/x.pycc"));
}

TEST(TreeIgnore, ASlashAnchorsAndAtTheEndMeansADirectory) {
  EXPECT_TRUE(Hit("/foo", "foo"));
  EXPECT_FALSE(Hit("/foo", "a/foo"));
  EXPECT_FALSE(Hit("a/foo", "b/a/foo"));
  EXPECT_TRUE(Hit("build/", "x/build", true));
  EXPECT_FALSE(Hit("build/", "x/build", false));
  EXPECT_FALSE(Hit("/", "a", true));
}

TEST(TreeIgnore, OneStarStopsAtASlashAndTwoDoNot) {
  EXPECT_FALSE(Hit("a/*", "a/b/c"));
  EXPECT_TRUE(Hit("a/*", "a/b"));
  EXPECT_FALSE(Hit("a?b", "a/b"));
  EXPECT_TRUE(Hit("**/x", "x"));
  EXPECT_TRUE(Hit("**/x", "a/b/x"));
  EXPECT_TRUE(Hit("a/**", "a/b/c"));
  EXPECT_FALSE(Hit("a/**", "a", true));
  EXPECT_TRUE(Hit("a/**/b", "a/b"));
  EXPECT_TRUE(Hit("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(Hit("a/**/b", "a/xb"));
  EXPECT_TRUE(Hit("**/a/*/c/**/e", "z/a/a/a/b/c/d/e"));
  EXPECT_FALSE(Hit("x**y/z", "xa/by/z"));
}

TEST(TreeIgnore, BracketsAreThoseOfWildmatch) {
  EXPECT_TRUE(Hit("[]-a]x", "]x"));
  EXPECT_TRUE(Hit("[!a-c]", "d"));
  EXPECT_FALSE(Hit("[^a-c]", "b"));
  EXPECT_TRUE(Hit("[a-]", "-"));
  EXPECT_TRUE(Hit("[[:digit:]]x", "7x"));
  EXPECT_FALSE(Hit("[[:nothing:]]x", "7x"));
  EXPECT_FALSE(Hit("[ab", "a"));
  EXPECT_TRUE(Hit("[\\]]", "]"));
  EXPECT_FALSE(Hit("a[/]b", "a/b"));
}

TEST(TreeIgnore, SpacesBackslashesCommentsAndReturns) {
  EXPECT_TRUE(Hit("foo  ", "foo"));
  EXPECT_TRUE(Hit("foo\\ ", "foo "));
  EXPECT_FALSE(Hit("#foo", "#foo"));
  EXPECT_TRUE(Hit("\\#foo", "#foo"));
  EXPECT_TRUE(Hit("\\!foo", "!foo"));
  EXPECT_FALSE(Hit("foo\\", "foo\\"));
  EXPECT_FALSE(Hit("", ""));
  const auto patterns = ParseIgnoreFile("\xEF\xBB\xBF*.o\r\n\n# no\n!keep.o\r");
  ASSERT_EQ(patterns.size(), 2u);
  EXPECT_TRUE(patterns[0].Matches("x.o", false));
  EXPECT_TRUE(patterns[1].negative() && patterns[1].Matches("keep.o", false));
}

TEST(TreeIgnore, LaterLinesDeeperFilesAndMusterignoreDecide) {
  IgnoreRules rules;
  rules.Enter("", "*.log\n!keep.log\n/data\n", "!debug.log\n*.bin\n");
  EXPECT_TRUE(rules.Ignores("x.log", false));
  EXPECT_FALSE(rules.Ignores("keep.log", false));
  EXPECT_FALSE(rules.Ignores("debug.log", false));
  EXPECT_TRUE(rules.Ignores("data", true));
  rules.Enter("a", "!*.bin\nkeep.log\n/only\n", "");
  EXPECT_TRUE(rules.Ignores("a/x.log", false));
  EXPECT_TRUE(rules.Ignores("a/keep.log", false));
  EXPECT_FALSE(rules.Ignores("a/x.bin", false));
  EXPECT_TRUE(rules.Ignores("a/only", false));
  EXPECT_FALSE(rules.Ignores("a/data", true));
  rules.Leave();
  EXPECT_TRUE(rules.Ignores("b/x.bin", false));
}

// A backtracking matcher needs longer than the universe has existed.
TEST(TreeIgnore, APatternMadeToTakeForeverDoesNot) {
  std::string stars, directories, path;
  for (int i = 0; i < 60; ++i) {
    stars += "*a";
    directories += "**/a/";
    path += "a/";
  }
  const std::string name(250, 'a');
  EXPECT_FALSE(Hit(stars + "*b", name));
  EXPECT_FALSE(Hit(directories + "b", path + path + path + "c"));
  EXPECT_TRUE(Hit(directories + "**/c", path + path + path + "c"));
}

}  // namespace
}  // namespace muster::tree
