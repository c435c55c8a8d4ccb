// The policy checkpoint place: which jobs wait for it, what they are told, and when they start. The scenario
// absent-checkpoint has the whole story.
#include <gtest/gtest.h>

#include "coordinator/core/state/state.h"
#include "tests/support/cluster_script.h"

namespace muster::coordinator {
namespace {

// A job whose checkpoint was saved while h1 led, fails while h2 leads, and cannot fetch it there.
void LoseTheCheckpoint(testing::ClusterScript& script) {
  for (const char* line :
       {"restart head=h1", "node a cpu:1", "submit n=1 restarts=1", "launch 1",
        "checkpoint a 1.0 10 0/1", "restart head=h2", "node a cpu:1", "exit 1 0 sig9 ended=1",
        "status a 1.1 port=20011", "status a 1.1 phase=ended failure=lost resume_damaged=1"}) {
    script.Run(line);
  }
}

TEST(CheckpointPlaceTest, KeepsAJobBackAndTellsItWhy) {
  testing::ClusterScript script;
  LoseTheCheckpoint(script);
  const v1::JobRecord& job = script.state().jobs.at(1);
  EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(
      job.reason(),
      "cannot resume yet: the coordinator h1 has its checkpoint of step 10, and h2 leads; fix: "
      "let h1 lead again, or jobctl release red-fox-1 --from-scratch to start from the "
      "beginning");
  EXPECT_FALSE(LatestCheckpoint(job)->flagged_corrupt());
}

TEST(CheckpointPlaceTest, LetsItStartOnceThatCoordinatorLeads) {
  testing::ClusterScript script;
  LoseTheCheckpoint(script);
  script.Run("restart head=h1");
  script.Run("node a cpu:1");
  script.Run("cleared a");
  const v1::JobRecord& job = script.state().jobs.at(1);
  ASSERT_NE(LiveAttempt(job), nullptr) << job.reason();
  EXPECT_EQ(LiveAttempt(job)->resume_step(), 10);
}

TEST(CheckpointPlaceTest, ReleasedFromScratchItStartsWithoutIt) {
  testing::ClusterScript script;
  LoseTheCheckpoint(script);
  script.Run("release 1");
  EXPECT_EQ(LiveAttempt(script.state().jobs.at(1)), nullptr);
  script.Run("release 1 from-scratch=1");
  const v1::JobRecord& job = script.state().jobs.at(1);
  ASSERT_NE(LiveAttempt(job), nullptr) << job.reason();
  EXPECT_EQ(LiveAttempt(job)->resume_step(), -1);
  EXPECT_EQ(LatestCheckpoint(job), nullptr);
}

TEST(CheckpointPlaceTest, OthersPassIt) {
  testing::ClusterScript script;
  LoseTheCheckpoint(script);
  script.Run("submit n=1");
  EXPECT_NE(LiveAttempt(script.state().jobs.at(2)), nullptr);
}

}  // namespace
}  // namespace muster::coordinator
