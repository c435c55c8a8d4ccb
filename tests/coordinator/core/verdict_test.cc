// What a scheduling pass says of jobs, and that all who print it print the same.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/plan.h"
#include "coordinator/core/scheduling/pass.h"
#include "coordinator/core/views/views.h"
#include "tests/support/cluster_script.h"

namespace muster::coordinator {
namespace {

constexpr Now kAnyTime{};

class VerdictTest : public ::testing::Test {
 protected:
  void Run(const std::string& line) {
    for (const std::string& out : script_.Run(line)) {
      EXPECT_FALSE(out.starts_with("SCRIPT ERROR")) << line << "\n" << out;
    }
  }
  const ClusterState& state() { return script_.state(); }
  Verdict VerdictOn(uint64_t job) {
    Asides found;
    Pass pass(state(), found, kAnyTime);
    pass.Run();
    return pass.Judge(state().jobs.at(job));
  }
  static std::vector<Reason> Reasons(const Verdict& verdict) {
    std::vector<Reason> reasons;
    for (const Blocker& blocker : verdict.blockers) reasons.push_back(blocker.reason);
    return reasons;
  }
  // The first blocker is what the journal, `why` and a plan of the same job tell.
  void ExpectTold(uint64_t job) {
    const Verdict verdict = VerdictOn(job);
    ASSERT_FALSE(verdict.blockers.empty());
    const v1::JobRecord& record = state().jobs.at(job);
    EXPECT_EQ(record.reason(), verdict.blockers.front().text);
    const std::string why = Why(state(), record, kAnyTime).text();
    EXPECT_NE(why.find(": " + verdict.blockers.front().text), std::string::npos) << why;
    EXPECT_TRUE(IsFoundByPass(record.reason()));
  }

  testing::ClusterScript script_;
};

using R = Reason;

TEST_F(VerdictTest, EachReasonIsFoundAndToldAlike) {
  Run("submit n=2");
  EXPECT_EQ(Reasons(VerdictOn(1)), std::vector{R::kNoNodes});
  ExpectTold(1);
  Run("cancel 1");
  Run("node a cpu:2");
  Run("submit n=1");
  Run("submit n=2");
  EXPECT_EQ(Reasons(VerdictOn(3)), std::vector{R::kDevices});
  ExpectTold(3);
  Run("submit n=3 anyway=1 priority=1");
  EXPECT_EQ(Reasons(VerdictOn(4)), std::vector{R::kTooLarge});
  ExpectTold(4);
  Run("cancel 4");
  Run("drain a");
  EXPECT_EQ(Reasons(VerdictOn(3)), std::vector{R::kAbsentNodes});
  ExpectTold(3);
}

TEST_F(VerdictTest, AJobBehindOthersIsToldThatFirstAndItsOwnReasonToo) {
  Run("node a cpu:2");
  Run("submit n=1");
  Run("submit n=2");
  Run("submit n=2");
  Run("submit n=1");
  EXPECT_EQ(Reasons(VerdictOn(3)), (std::vector{R::kBehindOthers, R::kDevices}));
  EXPECT_EQ(Reasons(VerdictOn(4)), (std::vector{R::kBehindOthers, R::kHeld}));
  EXPECT_EQ(state().jobs.at(4).reason(), RowOf(R::kBehindOthers).text);
  const v1::WhyResponse why = Why(state(), state().jobs.at(4), kAnyTime);
  EXPECT_NE(why.text().find("for which the devices that are free are held"), std::string::npos);
}

TEST_F(VerdictTest, WhatLastsForGoodIsRefusedWithItsRowsCodeAndFix) {
  Run("node a cpu:2");
  Run("submit n=3 anyway=1");
  const std::optional<Blocker> never = WhyNever(state(), state().jobs.at(1), kAnyTime);
  ASSERT_TRUE(never.has_value());
  const std::vector<std::string> refused = script_.Run("submit n=3");
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused.front(), std::string("refused: [") + RowOf(never->reason).code + "] the job " +
                                 never->text + "; fix: " + FixOf(*never));
}

TEST_F(VerdictTest, RowsThatRefuseHaveACodeAndAFixAndLetOthersPass) {
  for (const BlockerRow& row : kBlockers) {
    const bool refuses = row.lasts == Lasts::kForGood;
    EXPECT_EQ(*row.code != '\0', refuses) << row.text;
    EXPECT_EQ(*row.fix != '\0', refuses) << row.text;
    EXPECT_TRUE(row.lasts == Lasts::kUntilOthersMove || row.others_pass) << row.text;
  }
}

// ---------------------------------------------------------------- plans

TEST_F(VerdictTest, APlanSharesTheJobsRecordsAndKeepsThemWhileTheyChange) {
  Run("node a cpu:2");
  Run("submit n=1");
  Run("submit n=2 limit_ms=60000 by=user:ann");
  const SchedulingState shared = ShareForPlans(state());
  for (const uint64_t job : {1, 2}) {
    EXPECT_EQ(&shared.jobs.at(job), &state().jobs.at(job)) << "nothing of it is copied";
    EXPECT_TRUE(shared.timers.contains(job));
  }
  EXPECT_EQ(shared.jobs.at(2).owner(), "user:ann");
  EXPECT_EQ(shared.told, state().told);
  Run("launch 1");
  Run("finish 1");
  EXPECT_FALSE(state().jobs.contains(1));
  EXPECT_EQ(shared.jobs.at(1).state(), v1::JOB_STATE_STARTING);
  EXPECT_EQ(shared.jobs.at(2).state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(state().jobs.at(2).state(), v1::JOB_STATE_STARTING);
}

TEST_F(VerdictTest, PlansChangeNothingOfWhatTheyShare) {
  Run("node a cpu:2");
  Run("submit n=2");
  Run("submit n=2");
  const SchedulingState shared = ShareForPlans(state());
  SubmitInput input;
  v1::JobSpec& spec = *input.request.mutable_spec();
  spec.add_command("train");
  spec.set_workdir("/w");
  spec.mutable_shape()->set_processes(1);
  spec.mutable_shape()->mutable_device()->set_kind("cpu");
  const auto plan = PlanSubmit(shared, input, kAnyTime);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->outcome(), v1::PLAN_OUTCOME_LATER);
  EXPECT_EQ(shared.jobs.size(), 2u);
  EXPECT_EQ(shared.queue.size(), 1u);
  // Submitted, it is told what the plan told.
  Run("submit n=1");
  const std::string why = Why(state(), state().jobs.at(3), kAnyTime).text();
  EXPECT_TRUE(why.ends_with(plan->reason())) << why << "\n" << plan->reason();
}

}  // namespace
}  // namespace muster::coordinator
