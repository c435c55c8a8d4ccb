// Whom a worker dials next, and when (worker/links/head_rounds.cc).
#include "worker/links/head_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace muster::worker {
namespace {

using End = HeadRounds::End;
using Heads = std::vector<std::string>;

const Heads kThree = {"a:1", "b:1", "c:1"};

// Asks each of a round, which all end like this; returns them in order. `due_ms`: of the next round.
Heads Round(HeadRounds& rounds, const Heads& heads, int64_t now_ms, End end, int64_t* due_ms) {
  Heads asked;
  for (size_t i = 0; i < heads.size(); ++i) {
    asked.push_back(rounds.Next(heads, now_ms));
    *due_ms = rounds.Ended(end, now_ms);
    if (i + 1 == heads.size()) break;
    EXPECT_EQ(*due_ms, now_ms) << "the next at once";
  }
  return asked;
}

TEST(HeadRounds, EachIsAskedOnceBeforeThePause) {
  HeadRounds rounds(1);
  int64_t due_ms = 0;
  Heads asked = Round(rounds, kThree, 1'000, End::kFailed, &due_ms);
  EXPECT_EQ(asked.front(), "a:1") << "the first that was named";
  std::sort(asked.begin(), asked.end());
  EXPECT_EQ(asked, kThree);
  EXPECT_GT(due_ms, 1'000);
}

TEST(HeadRounds, ThePauseBetweenRoundsStaysShortAndHasJitter) {
  std::set<int64_t> pauses;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    HeadRounds rounds(seed);
    int64_t now_ms = 0;
    for (int round = 0; round < 20; ++round) {
      int64_t due_ms = 0;
      Round(rounds, kThree, now_ms, End::kStandsBy, &due_ms);
      ASSERT_LE(due_ms - now_ms, kRoundPauseMaxMs);
      if (round >= 6) {
        ASSERT_GE(due_ms - now_ms, kRoundPauseMaxMs / 2);
        pauses.insert(due_ms - now_ms);
      }
      now_ms = due_ms;
    }
  }
  EXPECT_GT(pauses.size(), 100u);
}

TEST(HeadRounds, ARoundThatWaitedForADeadMachineIsFollowedSoon) {
  HeadRounds rounds(1);
  int64_t now_ms = 0;
  for (int round = 0; round < 10; ++round) {
    int64_t due_ms = 0;
    for (int i = 0; i < 2; ++i) {
      rounds.Next({"a:1", "b:1"}, now_ms);
      now_ms += 600;
      due_ms = rounds.Ended(End::kFailed, now_ms);
    }
    EXPECT_LE(due_ms - now_ms, 100);
    now_ms = due_ms;
  }
}

TEST(HeadRounds, TheOneThatLedIsAskedFirstAgain) {
  HeadRounds rounds(1);
  while (rounds.Next(kThree, 0) != "c:1") rounds.Ended(End::kStandsBy, 0);
  rounds.Leads();
  EXPECT_LE(rounds.Ended(End::kFailed, 100), 100 + DialPauseMaxMs(0));
  EXPECT_EQ(rounds.Next(kThree, 200), "c:1");
  EXPECT_EQ(rounds.Ended(End::kFailed, 200), 200) << "the others at once";
}

TEST(HeadRounds, OneThatDoesNotAnswerIsAskedLastUntilItDoes) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    HeadRounds rounds(seed);
    EXPECT_EQ(rounds.Next(kThree, 0), "a:1");
    rounds.Ended(End::kFailed, 0);
    for (int i = 0; i < 2; ++i) {
      rounds.Next(kThree, 0);
      rounds.Ended(End::kStandsBy, 0);
    }
    Heads asked;
    int64_t due_ms = 0;
    EXPECT_EQ(Round(rounds, kThree, 100, End::kStandsBy, &due_ms).back(), "a:1");
    EXPECT_EQ(rounds.Next(kThree, 2'000), "a:1") << "it stands by, so it is there again";
  }
}

TEST(HeadRounds, ALeaderThatFellSilentIsAskedLast) {
  HeadRounds rounds(1);
  EXPECT_EQ(rounds.Next(kThree, 0), "a:1");
  rounds.Leads();
  rounds.Ended(End::kAbandoned, 100);
  int64_t due_ms = 0;
  EXPECT_EQ(Round(rounds, kThree, 200, End::kStandsBy, &due_ms).back(), "a:1");
}

TEST(HeadRounds, WhoeverIsRefusedByTheLeaderDoesNotAskEverySecond) {
  int64_t longest_ms = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    HeadRounds rounds(seed);
    int64_t due_ms = 0;
    for (int round = 0; round < 12; ++round) {
      for (size_t i = 0; i < kThree.size(); ++i) {
        const bool leads = rounds.Next(kThree, 0) == "b:1";
        due_ms = rounds.Ended(leads ? End::kRefused : End::kStandsBy, 0);
      }
      longest_ms = std::max(longest_ms, due_ms);
    }
  }
  EXPECT_GT(longest_ms, 2 * kRoundPauseMaxMs);
  EXPECT_LE(longest_ms, 5'000);
}

TEST(HeadRounds, ASingleOneIsRedialedWithGrowingPausesAsEver) {
  int64_t longest_ms = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    HeadRounds rounds(seed);
    for (int failures = 0; failures < 12; ++failures) {
      EXPECT_EQ(rounds.Next({"a:1"}, 0), "a:1");
      const int64_t due_ms = rounds.Ended(End::kFailed, 0);
      EXPECT_LE(due_ms, DialPauseMaxMs(failures));
      longest_ms = std::max(longest_ms, due_ms);
    }
  }
  EXPECT_GT(longest_ms, 2'500);
}

TEST(HeadRounds, NewCredentialsAreShownToTheSameOneAtOnce) {
  HeadRounds rounds(1);
  while (rounds.Next(kThree, 0) != "b:1") rounds.Ended(End::kStandsBy, 0);
  rounds.Leads();
  EXPECT_EQ(rounds.Ended(End::kRenewed, 500), 500);
  EXPECT_EQ(rounds.Next(kThree, 500), "b:1");
}

TEST(HeadRounds, OnesThatAreNamedLaterAreAskedInTheNextRound) {
  HeadRounds rounds(1);
  EXPECT_EQ(rounds.Next({"a:1"}, 0), "a:1");
  rounds.Leads();
  rounds.Ended(End::kFailed, 0);
  int64_t due_ms = 0;
  Heads asked = Round(rounds, kThree, 100, End::kFailed, &due_ms);
  EXPECT_EQ(asked.front(), "a:1");
  std::sort(asked.begin(), asked.end());
  EXPECT_EQ(asked, kThree);
}

}  // namespace
}  // namespace muster::worker
