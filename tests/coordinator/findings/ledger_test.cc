// The ledger adds up to wall time × devices whatever happened, and puts time where it belongs.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/job_story.h"

namespace muster::testing {
namespace {

int64_t Sum(const v1::Ledger& ledger) {
  return ledger.queue_us() + ledger.start_us() + ledger.data_us() + ledger.compute_us() +
         ledger.communication_us() + ledger.checkpoint_us() + ledger.restart_us() +
         ledger.repeated_us() + ledger.idle_us() + ledger.unknown_us();
}

constexpr int64_t kSecond = 1'000'000;
const std::map<std::string, double> kTimes = {{"step", 1},
                                              {"data_wait", 0.1},
                                              {"compute", 0.6},
                                              {"communication", 0.2},
                                              {"checkpoint", 0.05}};

TEST(LedgerTest, AnUninterruptedRun) {
  JobStory story(2);
  story.attempt().set_started_ms(JobStory::kSubmittedMs + 4'000);
  story.At(110).Steps(1, 95, 1, kTimes).Finish(v1::JOB_STATE_SUCCEEDED, 112);
  const v1::Ledger ledger = story.Look().ledger();
  EXPECT_EQ(ledger.total_us(), 2 * 112 * kSecond);
  EXPECT_EQ(Sum(ledger), ledger.total_us());
  EXPECT_EQ(ledger.queue_us(), 2 * 4 * kSecond);
  EXPECT_EQ(ledger.start_us(), 2 * 11 * kSecond) << "4 to 15: the first of 95 steps begins";
  EXPECT_NEAR(static_cast<double>(ledger.compute_us()), 2 * 57 * kSecond, 5) << "95 steps of 0.6 s";
  EXPECT_NEAR(static_cast<double>(ledger.communication_us()), 2 * 19 * kSecond, 5);
  EXPECT_NEAR(static_cast<double>(ledger.data_us()), 2 * 95 * kSecond / 10, 5);
  EXPECT_NEAR(static_cast<double>(ledger.checkpoint_us()), 2 * 95 * kSecond / 20, 5);
  EXPECT_EQ(ledger.restart_us() + ledger.repeated_us() + ledger.idle_us(), 0);
  EXPECT_NEAR(ledger.goodput(), 57.0 / 112, 1e-6);
}

TEST(LedgerTest, TwoRestartsFromACheckpoint) {
  JobStory story(2);
  story.At(110).Steps(1, 100, 1, kTimes).Committed(80, 90).Fail(110, 113);
  story.BeginAttempt(115, 120, 80).At(160).Steps(81, 40, 1, kTimes).Fail(162, 165);
  story.BeginAttempt(166, 170, 80).At(230).Steps(81, 60, 1, kTimes);
  story.Finish(v1::JOB_STATE_SUCCEEDED, 231);
  const v1::Ledger ledger = story.Look().ledger();
  EXPECT_EQ(ledger.total_us(), 2 * 231 * kSecond);
  EXPECT_EQ(Sum(ledger), ledger.total_us());
  EXPECT_EQ(ledger.repeated_us(), 2 * (20 + 42) * kSecond)
      << "steps 81 to 100, and all of the second attempt";
  EXPECT_EQ(ledger.restart_us(), 2 * (3 + 2 + 3 + 1) * kSecond) << "stopping, and between";
  EXPECT_NEAR(static_cast<double>(ledger.compute_us()), 2 * (80 + 60) * kSecond * 6 / 10, 5);
  ASSERT_EQ(ledger.blames_size(), 1);
  EXPECT_EQ(ledger.blames(0).who(), "rank 0 on node1");
  EXPECT_EQ(ledger.blames(0).times(), 2);
  EXPECT_EQ(ledger.blames(0).us(), ledger.repeated_us() + ledger.restart_us());
  EXPECT_EQ(ledger.newest_cause(), "rank 0 on node1 exited with code 1");
}

TEST(LedgerTest, WithoutStepTimesNothingIsInvented) {
  JobStory story(2);
  story.Finish(v1::JOB_STATE_SUCCEEDED, 100);
  const v1::Ledger ledger = story.Look().ledger();
  EXPECT_EQ(ledger.unknown_us(), 2 * 90 * kSecond);
  EXPECT_EQ(ledger.start_us(), 2 * 10 * kSecond);
  EXPECT_FALSE(ledger.has_goodput());
}

TEST(LedgerTest, AProgramWithItsOwnCheckpointsRepeatsOnlyWhatItsStepsShow) {
  JobStory story(1);
  story.At(110).Steps(1, 100, 1, kTimes).Fail(110, 110);
  story.BeginAttempt(110, 112).At(160).Steps(91, 40, 1, kTimes);
  story.Finish(v1::JOB_STATE_SUCCEEDED, 160);
  EXPECT_EQ(story.Look().ledger().repeated_us(), 10 * kSecond) << "steps 91 to 100";
}

TEST(LedgerTest, DevicesThatNeverWorkedAreIdle) {
  JobStory story(2);
  story.At(110).Steps(1, 100, 1, kTimes);
  story.Measured(50, {RankUsing(0, 1), RankUsing(1, 0)});
  const v1::Ledger ledger = story.Look().ledger();
  EXPECT_EQ(ledger.idle_us(), 100 * kSecond);
  EXPECT_EQ(Sum(ledger), ledger.total_us());
}

TEST(LedgerTest, AQueuedJobOnlyWaits) {
  JobStory story(2);
  story.job().clear_attempts();
  story.job().set_state(v1::JOB_STATE_QUEUED);
  story.At(30);
  const v1::Ledger ledger = story.Look().ledger();
  EXPECT_EQ(ledger.queue_us(), 2 * 30 * kSecond);
  EXPECT_EQ(ledger.total_us(), 2 * 30 * kSecond);
}

// Clocks that differ, attempts that never ran, steps that go back, checkpoints in between: the sum
// is exact, and nothing is negative.
TEST(LedgerTest, AnyHistoryAddsUpExactly) {
  std::mt19937 random(20'261'122);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<uint32_t>(end));
  };
  for (int round = 0; round < 500; ++round) {
    JobStory story(static_cast<uint32_t>(1 + below(5)), "cpu", static_cast<uint32_t>(1 + below(3)));
    story.job().clear_attempts();
    double at = below(50);
    int64_t step = 0;
    const int attempts = below(6);
    for (int i = 0; i < attempts; ++i) {
      const double started = at + below(20);
      const bool ran = below(5) > 0;
      story.BeginAttempt(started, ran ? started + below(9) : 0, below(3) == 0 ? step : -1);
      at = started + 10;
      step = below(2) == 0 ? step : below(100);
      for (int k = below(40); ran && k > 0; --k) {
        at += below(3) * 0.37;
        std::map<std::string, double> times = {{"step", below(100) / 50.0}};
        times["compute"] = below(100) / 100.0;
        times["data_wait"] = below(100) / 300.0;
        // The node's clock may be minutes off.
        if (below(3) == 0) times.clear();
        story.At(at + (round % 3 - 1) * 100).Step(++step, times, static_cast<uint32_t>(below(3)));
      }
      if (below(3) == 0) story.Committed(step, at);
      at += below(30);
      if (i + 1 < attempts || below(2) == 0) story.Fail(at - below(5), at);
    }
    const double end = at + below(60);
    if (below(2) == 0) {
      story.job().set_state(v1::JOB_STATE_FAILED);
      story.job().set_finished_ms(JobStory::kSubmittedMs + static_cast<int64_t>(end * 1000));
    }
    story.At(end);
    const v1::Ledger ledger = story.Look().ledger();
    ASSERT_EQ(Sum(ledger), ledger.total_us()) << "round " << round;
    ASSERT_EQ(ledger.total_us(), ledger.wall_us() * ledger.devices()) << "round " << round;
    ASSERT_EQ(ledger.wall_us(), static_cast<int64_t>(end * 1000) * 1'000) << "round " << round;
    for (const int64_t part :
         {ledger.queue_us(), ledger.start_us(), ledger.data_us(), ledger.compute_us(),
          ledger.communication_us(), ledger.checkpoint_us(), ledger.restart_us(),
          ledger.repeated_us(), ledger.idle_us(), ledger.unknown_us()}) {
      ASSERT_GE(part, 0) << "round " << round;
    }
  }
}

TEST(EtaTest, IsStepsLeftTimesTheMedianStep) {
  JobStory story(2);
  story.At(60).Steps(1, 40, 1, kTimes).Total(100);
  ASSERT_TRUE(story.Look().has_eta_ms());
  EXPECT_EQ(story.Look().eta_ms(), 60'000);
  // One evaluation of 50 s does not change the pace.
  story.At(110).Step(41).At(115).Steps(42, 5, 1, kTimes);
  EXPECT_EQ(story.Look().eta_ms(), 54'000);
}

TEST(EtaTest, IsAbsentUnlessItIsKnown) {
  JobStory story(2);
  story.At(60).Steps(1, 40, 1, kTimes);
  EXPECT_FALSE(story.Look().has_eta_ms()) << "no total";
  story.Total(100).Fail(70, 71);
  EXPECT_FALSE(story.Look().has_eta_ms()) << "it does not run";
  story.BeginAttempt(72, 75, 20).At(78).Steps(21, 3, 1, kTimes).Total(100);
  EXPECT_FALSE(story.Look().has_eta_ms()) << "too few steps of this attempt";
  story.At(88).Steps(24, 10, 1, kTimes);
  EXPECT_EQ(story.Look().eta_ms(), 67'000) << "repeated steps are in it";
}

TEST(HistoryTest, ManyStepsAreKeptInFewMarks) {
  coordinator::AttemptHistory history;
  for (int64_t step = 1; step <= 100'000; ++step) history.TakeStep(step, step * 250);
  EXPECT_LE(history.marks().size(), coordinator::AttemptHistory::kMarksMax);
  EXPECT_EQ(history.last_step(), 100'000);
  EXPECT_EQ(history.first_step(), 1);
  EXPECT_EQ(history.RecentStepMs(), 250);
  EXPECT_NEAR(static_cast<double>(history.TimeOf(54'321)), 54'321 * 250.0, 1);
}

TEST(HistoryTest, BothFormsOfTheComputeTimeCount) {
  JobStory story(1);
  story.At(20).Step(1, {{"step", 1}, {"forward", 0.2}, {"backward", 0.4}, {"optimizer", 0.1}});
  story.At(21).Step(2, {{"step", 1}, {"compute", 0.6}});
  story.At(22).Step(3, {{"step", 1}, {"compute", 0.05}, {"forward", 0.05}});
  EXPECT_NEAR(story.history().Find(0)->Times()[coordinator::StepTime::kCompute], 1.4, 1e-9);
}

}  // namespace
}  // namespace muster::testing
