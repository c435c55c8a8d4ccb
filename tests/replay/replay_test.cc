// What a trace is, and what comes out of small ones whose waits one can tell.
#include "replay/replay.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::replay {
namespace {

constexpr int64_t kHourMs = 3'600'000;

std::string ErrorOf(const std::string& csv) {
  return std::string(ParseTrace(csv, Estimates::kGiven).status().message());
}

Outcome OutcomeOf(const std::vector<TracedJob>& jobs, const std::vector<uint32_t>& nodes,
                  const Rules& rules) {
  Cluster cluster(nodes, rules);
  const absl::StatusOr<Outcome> outcome = Replay(jobs, cluster);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.value_or(Outcome{});
}

TEST(TraceTest, ColumnsAreFoundByTheirNames) {
  const auto jobs = ParseTrace(
      "vc,submit_s,ignored,gpus,duration_s,estimate_s,priority\r\n"
      "red,20.5,x,4,60,120,-3\r\nblue,10,,0,0,,\n\n",
      Estimates::kGiven);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 2u);
  const TracedJob &blue = (*jobs)[0], &red = (*jobs)[1];
  EXPECT_EQ(blue.submit_ms, 10'000);
  EXPECT_EQ(blue.duration_ms, 1'000) << "no job takes no time";
  EXPECT_EQ(blue.devices, 1u);
  EXPECT_EQ(red.submit_ms, 20'500);
  EXPECT_EQ(red.devices, 4u);
  EXPECT_EQ(red.estimate_ms, 120'000);
  EXPECT_EQ(red.priority, -3);
  EXPECT_EQ(red.project, "red");
}

TEST(TraceTest, WhatIsNoTraceIsRefusedByItsLine) {
  EXPECT_NE(ErrorOf("a,b\n").find("no column submit_s"), std::string::npos);
  const std::string head = "submit_s,duration_s,devices,priority\n";
  for (const char* line : {"x,1,1,", "1,nan,1,", "1,inf,1,", "-1,1,1,", "1,1e300,1,", "1,1,,",
                           "1,1,-1,", "1,1,99999999999,", "1,1,1,99999999", "1"}) {
    EXPECT_NE(ErrorOf(head + line).find("line 2"), std::string::npos) << line;
  }
  EXPECT_EQ(ErrorOf(head), "") << "no jobs";
}

TEST(ReplayTest, AJobWaitsForTheOneBeforeIt) {
  const Outcome outcome =
      OutcomeOf({{.duration_ms = kHourMs, .devices = 2},
                 {.submit_ms = kHourMs / 2, .duration_ms = kHourMs, .devices = 2}},
                {2}, {});
  EXPECT_EQ(outcome.ended, 2u);
  EXPECT_NEAR(outcome.waits.max_h, 0.5, 1e-6);
  EXPECT_NEAR(outcome.waits.mean_h, 0.25, 1e-6);
  EXPECT_NEAR(outcome.use, 1, 1e-6);
  EXPECT_EQ(outcome.gave_way, 0u);
}

TEST(ReplayTest, AShortJobPassesWherePlacesAreHeldAndNotInStrictOrder) {
  const std::vector<TracedJob> jobs = {
      {.duration_ms = 2 * kHourMs, .estimate_ms = 2 * kHourMs, .devices = 1},
      {.submit_ms = 1'000, .duration_ms = kHourMs, .estimate_ms = kHourMs, .devices = 2},
      {.submit_ms = 2'000, .duration_ms = kHourMs, .estimate_ms = kHourMs, .devices = 1}};
  EXPECT_NEAR(OutcomeOf(jobs, {2}, {}).waits.mean_h, 2.0 / 3, 0.01);
  EXPECT_NEAR(OutcomeOf(jobs, {2}, {.backfill = false}).waits.mean_h, 5.0 / 3, 0.01);
}

TEST(ReplayTest, WhatIsBorrowedGivesWayAndContinues) {
  const std::vector<TracedJob> jobs = {
      {.duration_ms = 4 * kHourMs, .devices = 2, .project = "red"},
      {.submit_ms = kHourMs, .duration_ms = kHourMs, .devices = 2, .project = "blue"}};
  const std::map<std::string, uint32_t> quotas = {{"red", 0}, {"blue", 2}};
  const Outcome waits = OutcomeOf(jobs, {2}, {.min_run_ms = std::nullopt, .quotas = quotas});
  EXPECT_NEAR(waits.waits.max_h, 3, 0.01);
  const Outcome outcome = OutcomeOf(jobs, {2}, {.quotas = quotas});
  EXPECT_EQ(outcome.gave_way, 1u);
  EXPECT_EQ(outcome.jobs_that_gave_way, 1u);
  // It waits for that one, and repeats what it did while it was asked.
  EXPECT_NEAR(outcome.waits.max_h, 1, 0.06);
  EXPECT_EQ(outcome.ended, 2u);
}

TEST(ReplayTest, WhatNeverFitsIsCountedAndHoldsNothingUp) {
  const Outcome outcome = OutcomeOf({{.duration_ms = kHourMs, .devices = 64},
                                     {.submit_ms = 1'000, .duration_ms = kHourMs, .devices = 8}},
                                    {8, 8}, {});
  EXPECT_EQ(outcome.jobs, 2u);
  EXPECT_EQ(outcome.ended, 1u);
  EXPECT_NEAR(outcome.waits.max_h, 0, 1e-6);
}

}  // namespace
}  // namespace muster::replay
