// What the rules about Muster's store report, and when they are silent.
#include <gtest/gtest.h>

#include "tests/support/job_story.h"

namespace muster::testing {
namespace {

v1::RankSample AtStore(uint32_t rank, bool joined) {
  v1::RankSample sample = RankUsing(rank, 0.5);
  sample.mutable_store()->set_joined(joined);
  return sample;
}

v1::RankSample Waiting(uint32_t rank, const std::string& key, uint32_t seconds,
                       bool at_barrier = false) {
  v1::RankSample sample = AtStore(rank, true);
  sample.mutable_store()->set_waits_for(key);
  sample.mutable_store()->set_keys(1);
  sample.mutable_store()->set_waits_ms(seconds * 1000);
  sample.mutable_store()->set_at_barrier(at_barrier);
  return sample;
}

v1::RankSample Missing(uint32_t rank, const std::string& last_line) {
  v1::RankSample sample = AtStore(rank, false);
  sample.mutable_store()->set_last_line(last_line);
  return sample;
}

TEST(RankMissingTest, NamesTheRankItsNodeItsLastLineAndHowManyAreThere) {
  JobStory story(3);
  story.At(40).Measured(20, {AtStore(0, true), AtStore(1, true), Missing(2, "loading")});
  EXPECT_EQ(story.Find("rank-missing"), nullptr) << "half a minute after the start";
  story.At(71).Measured(20, {AtStore(0, true), AtStore(1, true), Missing(2, "loading")});
  const v1::Finding* found = story.Find("rank-missing");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "rank 2 on node1 has not joined after 1m 1s; its last line: loading; 2 of 3 are there");
  EXPECT_EQ(found->fix(), "jobctl stack calm-otter-7 --rank 2");
  story.At(75).Measured(2, {AtStore(0, true), AtStore(1, true), AtStore(2, true)});
  EXPECT_EQ(story.Find("rank-missing"), nullptr) << "it has come";
}

TEST(RankMissingTest, IsSilentWhileNoRankHasComeAndWithoutAStore) {
  JobStory story(2);
  story.At(90).Measured(20, {Missing(0, "importing"), Missing(1, "importing")});
  EXPECT_EQ(story.Find("rank-missing"), nullptr);
  JobStory other(2);
  other.At(90).Measured(20, {RankUsing(0, 1), RankUsing(1, 1)});
  EXPECT_EQ(other.Find("rank-missing"), nullptr);
}

TEST(RankMissingTest, ARankThatExitedWithoutComingIsToldSo) {
  JobStory story(2);
  story.At(71).Measured(20, {AtStore(0, true), Missing(1, "")});
  v1::RankExit& exit = *story.attempt().mutable_parts(0)->add_exits();
  exit.set_rank(1);
  ASSERT_NE(story.Find("rank-missing"), nullptr);
  EXPECT_EQ(
      story.Find("rank-missing")->sentence(),
      "rank 1 on node1 has exited with 0 and never joined; it has printed nothing; 1 of 2 are "
      "there");
}

TEST(RanksWaitTest, NamesThoseThatAreWaitedFor) {
  JobStory story(3);
  story.At(200).Measured(
      5, {Waiting(0, "/b", 59, true), Waiting(1, "/b", 58, true), AtStore(2, true)});
  EXPECT_EQ(story.Find("ranks-wait"), nullptr) << "not for a floor yet";
  story.At(205).Measured(
      4, {Waiting(0, "/b", 64, true), Waiting(1, "/b", 63, true), AtStore(2, true)});
  ASSERT_NE(story.Find("ranks-wait"), nullptr);
  EXPECT_EQ(
      story.Find("ranks-wait")->sentence(),
      "2 of 3 ranks have waited 1m 4s at the barrier '/b'; rank 2 on node1 has not come there");
  EXPECT_EQ(story.Find("ranks-wait")->ranks(0), 2u);
}

TEST(RanksWaitTest, IsSilentWhereMostRanksDoSomethingElse) {
  JobStory story(4);
  story.At(200).Measured(
      5, {Waiting(0, "/b", 90), AtStore(1, true), AtStore(2, true), AtStore(3, true)});
  EXPECT_EQ(story.Find("ranks-wait"), nullptr);
}

TEST(RanksWaitTest, ThatAllWaitIsADeadlock) {
  JobStory story(2);
  story.At(200).Measured(5, {Waiting(0, "/a", 70), Waiting(1, "/b", 90)});
  ASSERT_NE(story.Find("ranks-wait"), nullptr);
  EXPECT_EQ(
      story.Find("ranks-wait")->sentence(),
      "2 of 2 ranks have waited 1m 10s for the key '/a', and no rank is left that does not wait");
}

TEST(RanksWaitTest, ARankThatHasExitedIsNamedAlsoIfNoNodeSampledIt) {
  JobStory story(3);
  story.At(200).Measured(5, {Waiting(0, "/b", 70, true), Waiting(1, "/b", 70, true)});
  story.attempt().mutable_parts(0)->add_exits()->set_rank(2);
  ASSERT_NE(story.Find("ranks-wait"), nullptr);
  EXPECT_EQ(
      story.Find("ranks-wait")->sentence(),
      "2 of 3 ranks have waited 1m 10s at the barrier '/b', and no rank is left that does not "
      "wait: rank 2 on node1 has exited with 0");
}

TEST(WaitEndedTest, NamesWhoWaitedForWhatAndWhoHadExited) {
  JobStory story(2);
  v1::RankSample ended = Waiting(0, "/late", 12);
  ended.mutable_store()->set_ended(true);
  story.At(60).Measured(2, {ended, AtStore(1, true)});
  story.attempt().mutable_parts(0)->add_exits()->set_rank(1);
  ASSERT_NE(story.Find("wait-ended"), nullptr);
  EXPECT_EQ(
      story.Find("wait-ended")->sentence(),
      "rank 0 on node1 waited for the key '/late', which only rank 1 on node1 could still have "
      "set: it has exited with 0; the wait was ended");
  EXPECT_EQ(story.Find("wait-ended")->severity(), v1::FINDING_SEVERITY_ERROR);
}

}  // namespace
}  // namespace muster::testing
