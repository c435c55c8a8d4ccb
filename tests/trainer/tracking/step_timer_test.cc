// The step timer with a fake clock.
#include "muster/tracking/step_timer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster {
namespace {

using enum StepPart;

constexpr int64_t kMs = 1'000'000;

class StepTimerTest : public ::testing::Test {
 protected:
  void pass(int64_t ms) { now_ns_ += ms * kMs; }
  void spend(StepPart part, int64_t ms) {
    const auto section = timer_.measure(part);
    pass(ms);
  }
  // Data wait, compute, communication, checkpoint, other and total of a step, in milliseconds.
  static std::vector<double> ms(const StepTimes& times) {
    std::vector<double> values = {times[data_wait],  times[compute], times[communication],
                                  times[checkpoint], times.other(),  times.total};
    for (double& value : values) value = std::round(1e6 * value) / 1e3;
    return values;
  }

  int64_t now_ns_ = 77;
  StepTimer timer_{StepTimerOptions{.window = 4, .now_ns = [this] { return now_ns_; }}};
};

TEST_F(StepTimerTest, DividesAStepIntoItsParts) {
  spend(data_wait, 2);
  spend(compute, 10);
  pass(1);
  spend(communication, 3);
  spend(compute, 4);
  spend(checkpoint, 5);
  EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{2, 14, 3, 5, 1, 25}));
  pass(7);  // between two steps: counts toward the next one
  EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{0, 0, 0, 0, 7, 7}));
  EXPECT_EQ(timer_.steps(), 2);
}

TEST_F(StepTimerTest, TakesInnerSectionsOutOfTheOuterOne) {
  {
    const auto outer = timer_.measure(compute);
    pass(1);
    {
      const auto middle = timer_.measure(communication);
      pass(2);
      spend(checkpoint, 4);
      pass(8);
    }
    pass(16);
  }
  EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{0, 17, 10, 4, 0, 31}));
}

TEST_F(StepTimerTest, AddsWhatWasMeasuredElsewhere) {
  {
    const auto section = timer_.measure(compute);
    pass(10);
    timer_.add(data_wait, 0.004);  // of these ten
  }
  pass(5);
  timer_.add(communication, 0.003);  // of these five
  EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{4, 6, 3, 0, 2, 15}));
  timer_.add(compute, 1.0);  // more than passed: other is not negative
  EXPECT_EQ(timer_.end_step().other(), 0);
}

TEST_F(StepTimerTest, CutsOpenSectionsAtTheEndOfAStep) {
  {
    const auto outer = timer_.measure(compute);
    pass(1);
    {
      const auto inner = timer_.measure(communication);
      pass(2);
      EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{0, 1, 2, 0, 0, 3}));
      pass(4);
    }
    pass(8);
  }
  EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{0, 8, 4, 0, 0, 12}));
}

TEST_F(StepTimerTest, LeavesOutWhatPassedBeforeARestart) {
  spend(compute, 100);
  timer_.restart();
  spend(compute, 3);
  EXPECT_EQ(ms(timer_.end_step()), (std::vector<double>{0, 3, 0, 0, 0, 3}));
}

TEST_F(StepTimerTest, SummarizesTheLastStepsOfTheWindow) {
  EXPECT_EQ(timer_.summary().steps, 0u);
  for (const int duration : {1000, 10, 20, 30, 60}) {  // the first one falls out of the window
    spend(compute, duration);
    timer_.end_step();
  }
  const StepTimeSummary summary = timer_.summary();
  EXPECT_EQ(summary.steps, 4u);
  EXPECT_DOUBLE_EQ(summary.total.mean, 0.030);
  EXPECT_DOUBLE_EQ(summary.total.p50, 0.020);
  EXPECT_DOUBLE_EQ(summary.total.p95, 0.060);
  EXPECT_DOUBLE_EQ(summary.total.max, 0.060);
  EXPECT_DOUBLE_EQ(summary[compute].mean, 0.030);
  EXPECT_DOUBLE_EQ(summary[data_wait].max, 0);
}

TEST_F(StepTimerTest, PercentilesAreNearestRank) {
  StepTimer timer({.window = 100, .now_ns = [this] { return now_ns_; }});
  for (int step = 100; step >= 1; --step) {
    pass(step);
    timer.end_step();
  }
  EXPECT_DOUBLE_EQ(timer.summary().total.p50, 0.050);
  EXPECT_DOUBLE_EQ(timer.summary().total.p95, 0.095);
}

TEST_F(StepTimerTest, ReportsALineAndMetrics) {
  for (int step = 0; step < 3; ++step) {
    spend(data_wait, 1);
    spend(compute, 17);
    spend(communication, 2);
    timer_.end_step();
  }
  EXPECT_EQ(timer_.summary().line(),
            "20 ms/step (p95 20, max 20) | data 5% compute 85% comm 10% ckpt 0% other 0%");
  const std::vector<ScalarValue> metrics = timer_.metrics();
  ASSERT_EQ(metrics.size(), 7u);
  EXPECT_EQ(metrics[0].name, "time/step");
  EXPECT_DOUBLE_EQ(metrics[0].value, 0.020);
  EXPECT_EQ(metrics[2].name, "time/data_wait");
  EXPECT_DOUBLE_EQ(metrics[2].value, 0.001);
}

TEST_F(StepTimerTest, TellsForwardBackwardAndOptimizerApart) {
  spend(forward, 6);
  spend(backward, 12);
  spend(optimizer, 2);
  const StepTimes times = timer_.end_step();
  EXPECT_DOUBLE_EQ(times[forward] + times[backward] + times[optimizer], 0.020);
  EXPECT_EQ(timer_.summary().line(),
            "20 ms/step (p95 20) | data 0% fwd 30% bwd 60% opt 10% comm 0% ckpt 0% other 0%");
  std::vector<std::string> names;
  for (const ScalarValue& metric : timer_.metrics()) names.emplace_back(metric.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"time/step", "time/step_p95", "time/data_wait",
                                      "time/forward", "time/backward", "time/optimizer",
                                      "time/communication", "time/checkpoint", "time/other"}));
}

TEST_F(StepTimerTest, TakesWaitsForOtherRanksOutOfTheSectionTheyFallInto) {
  int64_t waited_ns = 5 * kMs;  // before the timer was there
  StepTimer timer({.now_ns = [this] { return now_ns_; },
                   .communication_ns = [&waited_ns] { return waited_ns; }});
  const auto wait = [&](int64_t ms) {
    pass(ms);
    waited_ns += ms * kMs;
  };
  wait(1);  // outside all sections
  {
    const auto section = timer.measure(backward);
    pass(10);
    wait(4);
  }
  const StepTimes first = timer.end_step();
  EXPECT_EQ(ms(first), (std::vector<double>{0, 0, 5, 0, 0, 15}));
  EXPECT_DOUBLE_EQ(first[backward], 0.010);
  wait(3);
  timer.restart();  // an evaluation's waits are discarded with it
  pass(2);
  EXPECT_EQ(ms(timer.end_step()), (std::vector<double>{0, 0, 0, 0, 2, 2}));
}

TEST_F(StepTimerTest, TheLineFitsEightyColumnsWhateverTheTimes) {
  for (const int64_t duration : {1, 999, 12'345, 9'999'999, 123'456'789}) {
    StepTimer timer({.now_ns = [this] { return now_ns_; }});
    for (const StepPart part :
         {data_wait, compute, communication, checkpoint, forward, backward, optimizer}) {
      const auto section = timer.measure(part);
      pass(duration);
    }
    timer.end_step();
    EXPECT_LE(timer.summary().line().size(), 80u) << timer.summary().line();
  }
}

TEST(StepTimer, RefusesAWindowOfNothing) {
  EXPECT_THROW(StepTimer({.window = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace muster
