// Who may have how much of what is bounded: whatever others take, there is something for the next.
#include "coordinator/base/fair_share.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using Verdict = FairShare::Verdict;

size_t TakeAllOf(FairShare& share, const std::string& caller) {
  size_t taken = 0;
  for (; share.Ask(caller) == Verdict::kRoom; ++taken) share.Take(caller);
  return taken;
}

TEST(FairShare, GreedyCallersOfAnyNumberLeaveSomethingForTheNext) {
  for (const size_t greedy : {1, 2, 3, 10, 30}) {
    FairShare share({.most = 64, .of_one = 32});
    for (size_t i = 0; i < greedy; ++i) share.Take(common::StrCat("greedy", i));
    bool is_any = true;
    while (is_any) {  // in turn, one each
      is_any = false;
      for (size_t i = 0; i < greedy; ++i) {
        const std::string name = common::StrCat("greedy", i);
        if (share.Ask(name) != Verdict::kRoom) continue;
        share.Take(name);
        is_any = true;
      }
    }
    EXPECT_LE(share.taken(), 64 - 64 / (greedy + 2)) << greedy;
    EXPECT_EQ(share.Ask("greedy0"), Verdict::kOverShare);
    EXPECT_EQ(share.Ask("modest"), Verdict::kRoom) << greedy;
  }
}

TEST(FairShare, NobodyHasMoreThanItsLimitAndGetsBackWhatItGave) {
  FairShare share({.most = 100, .of_one = 10});
  EXPECT_EQ(TakeAllOf(share, "a"), 10u);
  EXPECT_EQ(share.Ask("a"), Verdict::kOverShare);
  EXPECT_EQ(share.Ask("a", 0), Verdict::kRoom);
  share.Release("a", 3);
  EXPECT_EQ(TakeAllOf(share, "a"), 3u);
  share.Release("a", 1'000);
  share.Release("unknown");
  EXPECT_EQ(share.Of("a"), 0u);
  EXPECT_EQ(share.taken(), 0u);
}

TEST(FairShare, WhatGrowsBeyondItsLimitTakesNothingFromOthers) {
  FairShare share({.most = 100, .of_one = 25});
  share.Take("a", 900);
  EXPECT_EQ(share.Ask("a", 0), Verdict::kOverShare) << "not even a question";
  EXPECT_EQ(share.taken(), 25u);
  EXPECT_EQ(share.Ask("b", 25), Verdict::kRoom);
  share.Release("a", 880);
  EXPECT_EQ(share.taken(), 20u);
}

TEST(FairShare, WhatIsFullForEverybodyIsNobodysShare) {
  FairShare share({.most = 2, .of_one = 2});
  share.Take("a");
  share.Take("b");
  EXPECT_EQ(share.Ask("c"), Verdict::kFull);
  EXPECT_EQ(share.Ask("a"), Verdict::kOverShare);
}

TEST(FairShare, WhoHasMostYieldsToWhoHasLess) {
  FairShare share({.most = 4, .of_one = 4});
  EXPECT_EQ(share.WhoYields("b"), std::nullopt);
  share.Take("a", 3);
  share.Take("b");
  EXPECT_EQ(share.WhoYields("a"), std::nullopt) << "not to itself";
  EXPECT_EQ(share.WhoYields("b"), "a");
  share.Release("a");
  share.Take("b");
  EXPECT_EQ(share.WhoYields("b"), std::nullopt) << "they have as much";
  EXPECT_EQ(share.WhoYields("c").has_value(), true);
}

TEST(FairPlaces, APlaceIsGivenBackWithItsLastCopyAlsoAfterThem) {
  auto places = std::make_unique<FairPlaces>(FairShare::Limits{.most = 2, .of_one = 1});
  FairPlaces::Answer first = places->Take("a");
  ASSERT_NE(first.place, nullptr);
  EXPECT_EQ(places->Take("a").verdict, Verdict::kOverShare);
  std::shared_ptr<void> copy = first.place;
  first.place.reset();
  EXPECT_EQ(places->Take("a").verdict, Verdict::kOverShare);
  copy.reset();
  FairPlaces::Answer again = places->Take("a");
  EXPECT_EQ(again.verdict, Verdict::kRoom);
  places.reset();
}

}  // namespace
}  // namespace muster::coordinator
