// One lookup for all who ask at once, what is kept of it, and who is told what.
#include "coordinator/base/cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::coordinator {
namespace {

using Words = Cache<int, const std::string>;

class CacheTest : public testing::Test {
 protected:
  // Answered later, as a disk would.
  Words::Lookup Lookup() {
    return [this](std::function<void(Words::Found)> done) { asked_.push_back(std::move(done)); };
  }
  Words::Then Told() {
    return [this](const Words::Found& found) {
      told_.push_back(found.ok() ? **found : std::string(found.status().message()));
    };
  }
  void Answer(size_t lookup, Words::Found found) { asked_[lookup](std::move(found)); }
  static Words::Found Word(const std::string& word) {
    return std::make_shared<const std::string>(word);
  }

  Words words_{{.entries = 2, .lookups = 2}};
  std::vector<std::function<void(Words::Found)>> asked_;
  std::vector<std::string> told_;
};

TEST_F(CacheTest, ManyWhoAskAtOnceCostOneLookup) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(words_.Get(1, Lookup(), Told()));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(words_.Find(1), nullptr);
  Answer(0, Word("one"));
  EXPECT_EQ(told_, std::vector<std::string>(100, "one"));
  ASSERT_NE(words_.Find(1), nullptr);
  EXPECT_EQ(*words_.Find(1), "one");
}

TEST_F(CacheTest, AnErrorIsToldToAllAndNotKept) {
  words_.Get(1, Lookup(), Told());
  words_.Get(1, Lookup(), Told());
  Answer(0, absl::UnavailableError("no disk"));
  EXPECT_EQ(told_, std::vector<std::string>(2, "no disk"));
  EXPECT_EQ(words_.Find(1), nullptr);
  words_.Get(1, Lookup(), Told());
  EXPECT_EQ(asked_.size(), 2u);
}

// Who asks while a lookup is under way may know of more than it finds.
TEST_F(CacheTest, WhatIsTooOldForTheOneWhoAsksIsLookedUpOnceMore) {
  const auto is_new = [](const Words::Found& found) { return found.ok() && **found == "new"; };
  words_.Get(1, Lookup(), Told(), is_new);
  words_.Get(1, Lookup(), Told());
  for (int i = 0; i < 3; ++i) words_.Get(1, Lookup(), Told(), is_new);
  Answer(0, Word("old"));
  EXPECT_EQ(told_, std::vector<std::string>(2, "old"));
  ASSERT_EQ(asked_.size(), 2u);
  // It began after they asked: whatever it finds is their answer.
  Answer(1, Word("as old"));
  EXPECT_EQ(told_.size(), 5u);
  EXPECT_EQ(told_.back(), "as old");
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(CacheTest, WhatIsKnownIsToldAtOnceUnlessItIsTooOldForTheOneWhoAsks) {
  words_.Get(1, Lookup(), Told());
  Answer(0, Word("old"));
  words_.Get(1, Lookup(), Told());
  EXPECT_EQ(told_, std::vector<std::string>(2, "old"));
  words_.Get(1, Lookup(), Told(), [](const Words::Found& found) { return **found == "new"; });
  ASSERT_EQ(asked_.size(), 2u);
  Answer(1, Word("new"));
  EXPECT_EQ(told_.back(), "new");
  EXPECT_EQ(*words_.Find(1), "new");
}

TEST_F(CacheTest, WhatIsForgottenWhileItIsLookedUpIsToldButNotKept) {
  words_.Get(1, Lookup(), Told());
  words_.Forget(1);
  Answer(0, Word("removed"));
  EXPECT_EQ(told_, std::vector<std::string>{"removed"});
  EXPECT_EQ(words_.Find(1), nullptr);
}

TEST_F(CacheTest, AFullOneForgetsWhatWasUsedLeastRecentlyAndNothingElse) {
  for (int key = 1; key <= 2; ++key) {
    words_.Get(key, Lookup(), Told());
    Answer(asked_.size() - 1, Word(std::to_string(key)));
  }
  ASSERT_NE(words_.Find(1), nullptr);
  words_.Get(3, Lookup(), Told());
  Answer(2, Word("3"));
  EXPECT_NE(words_.Find(1), nullptr);
  EXPECT_EQ(words_.Find(2), nullptr);
  EXPECT_NE(words_.Find(3), nullptr);
}

TEST_F(CacheTest, TooManyLookupsAtOnceAreRefusedButNotThoseUnderWay) {
  EXPECT_TRUE(words_.Get(1, Lookup(), Told()));
  EXPECT_TRUE(words_.Get(2, Lookup(), Told()));
  EXPECT_FALSE(words_.Get(3, Lookup(), Told()));
  EXPECT_TRUE(words_.Get(2, Lookup(), Told()));
  EXPECT_EQ(asked_.size(), 2u);
  Answer(0, Word("one"));
  EXPECT_TRUE(words_.Get(3, Lookup(), Told()));
}

TEST_F(CacheTest, AnAnswerAtOnceIsOneToo) {
  words_.Get(
      1, [](const std::function<void(Words::Found)>& done) { done(Word("now")); }, Told());
  EXPECT_EQ(told_, std::vector<std::string>{"now"});
}

}  // namespace
}  // namespace muster::coordinator
