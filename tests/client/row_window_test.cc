// Which rows a live view shows while keys and new rows come.
#include "client/terminal/row_window.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

using Key = LiveScreen::Key;

// "job-9", "job-8", …: the newest first.
std::vector<std::string> Jobs(int newest, int oldest = 1) {
  std::vector<std::string> names;
  for (int i = newest; i >= oldest; --i) names.push_back("job-" + std::to_string(i));
  return names;
}

class RowWindowTest : public ::testing::Test {
 protected:
  std::string FirstOf(const std::vector<std::string>& names, size_t page = 5) {
    window_.Follow(names, page);
    return names[window_.first()];
  }
  void Press(Key key, char character = 0) { window_.OnKey({.key = key, .character = character}); }
  RowWindow window_;
};

TEST_F(RowWindowTest, AtTheTopNewRowsAppear) {
  EXPECT_EQ(FirstOf(Jobs(20)), "job-20");
  EXPECT_EQ(FirstOf(Jobs(23)), "job-23");
  EXPECT_EQ(window_.last(), 5u);
}

TEST_F(RowWindowTest, ScrolledRowsStayWhereTheyAreWhileOthersComeAndGoAbove) {
  FirstOf(Jobs(20));
  Press(Key::kPageDown);
  EXPECT_EQ(FirstOf(Jobs(20)), "job-15");
  EXPECT_EQ(FirstOf(Jobs(40)), "job-15") << "twenty new jobs above";
  EXPECT_EQ(FirstOf(Jobs(16)), "job-15") << "jobs above have gone";
  Press(Key::kDown);
  EXPECT_EQ(FirstOf(Jobs(16)), "job-14");
  std::vector<std::string> without = Jobs(16);
  without.erase(without.begin() + 2);
  EXPECT_EQ(FirstOf(without), "job-13") << "the row itself has gone: the next takes its place";
  Press(Key::kHome);
  EXPECT_EQ(FirstOf(Jobs(60)), "job-60");
  EXPECT_EQ(FirstOf(Jobs(61)), "job-61");
}

TEST_F(RowWindowTest, TheEndIsTheEndOfAllRowsNotOfThoseKnown) {
  FirstOf(Jobs(100, 85));
  EXPECT_EQ(window_.Needed(), 11u) << "what is shown, and a page more";
  Press(Key::kCharacter, 'G');
  EXPECT_EQ(window_.Needed(), SIZE_MAX);
  EXPECT_EQ(FirstOf(Jobs(100)), "job-5");
  window_.KnowsAll();
  EXPECT_EQ(window_.PlaceText(100, false), "rows 96-100 of 100  ");
  EXPECT_EQ(FirstOf(Jobs(103)), "job-5") << "it stays there";
}

TEST_F(RowWindowTest, FitsFewerRowsAndASmallerScreen) {
  FirstOf(Jobs(20));
  Press(Key::kEnd);
  FirstOf(Jobs(20));
  window_.KnowsAll();
  EXPECT_EQ(FirstOf(Jobs(3)), "job-3") << "all fit";
  EXPECT_EQ(window_.PlaceText(3, false), "");
  window_.Follow({}, 5);
  EXPECT_EQ(window_.first(), 0u);
  EXPECT_EQ(window_.last(), 0u);
  FirstOf(Jobs(20), 0);
  EXPECT_EQ(window_.last() - window_.first(), 1u) << "at least one row";
}

TEST_F(RowWindowTest, OtherKeysAreNotItsOwn) {
  EXPECT_FALSE(window_.OnKey({.key = Key::kCharacter, .character = 'q'}));
  EXPECT_FALSE(window_.OnKey({}));
  EXPECT_TRUE(window_.OnKey({.key = Key::kCharacter, .character = 'j'}));
}

}  // namespace
}  // namespace muster::client
