#include "common/base/limits.h"
#include "common/kernel/shim_protocol.h"
#include "common/node_shortage.h"
#include "tests/worker/core_fixture.h"
#include "worker/core/stages.h"

namespace muster::worker {
namespace {

class LaunchTest : public CoreTest {};

TEST_F(LaunchTest, HeldPortIsReportedAndLaunchUsesIt) {
  Connect();
  v1::CoordinatorMessage hold;
  hold.mutable_prepare()->set_job(42);
  hold.mutable_prepare()->set_count(1);
  ASSERT_EQ(Of<PrepareAttemptAction>(Command(hold)).size(), 1u);
  const auto status = LastStatus(Say(AttemptPreparedInput{kKey, 20'001, ""}));
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_HOLDING);
  EXPECT_EQ(status.master_port(), 20'001u);
  EXPECT_TRUE(Of<PrepareAttemptAction>(Command(hold)).empty())
      << "a repeated command holds no second";

  auto launch = Launch(kKey);
  launch.mutable_launch()->set_is_master(true);
  launch.mutable_launch()->set_master_port(20'001);
  EXPECT_EQ(Of<RecordLaunchAction>(Command(launch)).size(), 1u);
}

v1::CoordinatorMessage HoldWithSetup() {
  v1::CoordinatorMessage hold;
  hold.mutable_prepare()->set_job(42);
  hold.mutable_prepare()->set_count(1);
  hold.mutable_prepare()->mutable_spec()->add_setup("make");
  return hold;
}

TEST_F(LaunchTest, APreparationIsToldWhileItLastsAndOnceItIsDone) {
  Connect();
  const auto orders = Of<PrepareAttemptAction>(Command(HoldWithSetup()));
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.spec().setup(0), "make");
  EXPECT_EQ(LastStatus(Say(PreparingInput{kKey, "running setup"})).preparation().doing(),
            "running setup");
  EXPECT_TRUE(Say(PreparingInput{kKey, "running setup"}).empty()) << "nothing new";
  const Actions again = Command(HoldWithSetup());
  EXPECT_TRUE(Of<PrepareAttemptAction>(again).empty()) << "a repeated order changes nothing";
  EXPECT_EQ(LastStatus(again).preparation().doing(), "running setup");
  AttemptPreparedInput held{kKey, 20'001, ""};
  held.preparation.set_ran_setup(true);
  held.preparation.set_setup_output("installed");
  const auto status = LastStatus(Say(held));
  EXPECT_TRUE(status.ready());
  EXPECT_TRUE(status.preparation().ran_setup());
  EXPECT_EQ(status.preparation().doing(), "");
  EXPECT_EQ(status.preparation().setup_output(), "installed");
}

TEST_F(LaunchTest, AStopWhilePreparingCancelsItAndALateEndHoldsNothing) {
  Connect();
  Command(HoldWithSetup());
  Say(PreparingInput{kKey, "running setup"});
  const Actions stopped = Command(StopOf(kKey));
  EXPECT_EQ(Of<CancelPreparationAction>(stopped).size(), 1u);
  EXPECT_EQ(LastStatus(stopped).phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_FALSE(LastStatus(stopped).has_preparation());
  EXPECT_TRUE(Say(PreparingInput{kKey, "copying code"}).empty());
  EXPECT_EQ(Of<ReleaseRendezvousAction>(Say(AttemptPreparedInput{kKey, 20'001, ""})).size(), 1u);
}

TEST_F(LaunchTest, WhatThisWorkerHasNotPreparedIsNotLaunched) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->mutable_spec()->add_setup("make");
  const Actions refused = Command(launch);
  EXPECT_TRUE(Of<RecordLaunchAction>(refused).empty());
  EXPECT_EQ(LastStatus(refused).failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED);
  EXPECT_NE(LastStatus(refused).failure().find("has not prepared"), std::string::npos);
}

TEST_F(LaunchTest, WhatItHasPreparedIsLaunchedOnce) {
  Connect();
  Command(HoldWithSetup());
  AttemptPreparedInput held{kKey, 0, ""};
  held.preparation.set_setup_output("installed");
  Say(held);
  auto launch = Launch(kKey);
  launch.mutable_launch()->mutable_spec()->add_setup("make");
  const Actions launched = Command(launch);
  EXPECT_EQ(Of<RecordLaunchAction>(launched).size(), 1u);
  EXPECT_EQ(LastStatus(launched).preparation().setup_output(), "") << "it was told before";
}

TEST_F(LaunchTest, WhatAFailedSetupPrintedGoesWithTheEndOfTheAttempt) {
  Connect();
  Command(HoldWithSetup());
  AttemptPreparedInput failed{kKey, 0, "setup failed", true};
  failed.preparation.set_setup_failed(true);
  failed.preparation.set_setup_output("no such wheel");
  const auto status = LastStatus(Say(failed));
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(status.preparation().setup_output(), "no such wheel");
}

TEST_F(LaunchTest, MasterLaunchWithoutItsPortFailsWithTheReason) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->set_is_master(true);
  launch.mutable_launch()->set_master_port(20'001);
  const Actions actions = Command(launch);
  EXPECT_TRUE(Of<RecordLaunchAction>(actions).empty());
  const auto status = LastStatus(actions);
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED);
  EXPECT_NE(status.failure().find("port 20001 is not held"), std::string::npos);
}

TEST_F(LaunchTest, PortsThatCannotBeHeldEndTheAttempt) {
  Connect();
  v1::CoordinatorMessage hold;
  hold.mutable_prepare()->set_job(42);
  Command(hold);
  const auto status = LastStatus(Say(AttemptPreparedInput{kKey, 0, "no free port in 20000-20001"}));
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(status.failure(), "no free port in 20000-20001");
}

TEST_F(LaunchTest, WhatOthersUseUpOnTheNodeIsToldApartFromTheJobsOwnFailures) {
  Connect();
  v1::CoordinatorMessage hold;
  hold.mutable_prepare()->set_job(42);
  Command(hold);
  AttemptPreparedInput none{kKey, 0, "no free port in 20000-20001"};
  none.is_short = true;
  auto status = LastStatus(Say(none));
  EXPECT_EQ(status.how_ended(), common::kEndedForShortage);
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED);

  const AttemptKey next{42, 1};
  Command(Launch(next));
  status = LastStatus(Say(LaunchRecordedInput{next, "no space left on device", false, true}));
  EXPECT_EQ(status.how_ended(), common::kEndedForShortage);
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED);

  const AttemptKey last{42, 2};
  Command(Launch(last));
  status = LastStatus(Say(LaunchRecordedInput{last, "its owner has no account here", true}));
  EXPECT_EQ(status.how_ended(), "never launched");
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_FAILED);

  const AttemptKey broken{42, 3};
  Command(Launch(broken));
  status = LastStatus(Say(LaunchRecordedInput{broken, "input/output error"}));
  EXPECT_EQ(status.how_ended(), "never launched");
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED)
      << "the node's, not the job's";
}

TEST_F(LaunchTest, EveryRankStartedMakesItRunning) {
  Connect();
  EXPECT_EQ(LastStatus(Command(Launch(kKey))).phase(), v1::ATTEMPT_PHASE_PREPARING);
  EXPECT_EQ(Of<SpawnAction>(Say(LaunchRecordedInput{kKey})).size(), 1u);
  const auto status = LastStatus(Say(RanksStartedInput{kKey, 2}));
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_RUNNING);
  EXPECT_EQ(status.ranks_started(), 2u);
}

TEST_F(LaunchTest, RepeatedLaunchSpawnsOnceAndIsAnsweredByTheStatus) {
  Connect();
  Run(kKey);
  const Actions again = Command(Launch(kKey));
  EXPECT_TRUE(Of<RecordLaunchAction>(again).empty());
  EXPECT_TRUE(Of<SpawnAction>(again).empty());
  EXPECT_EQ(LastStatus(again).phase(), v1::ATTEMPT_PHASE_RUNNING);
}

TEST_F(LaunchTest, CheckpointIsFetchedBeforeTheRanksStart) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->set_resume_step(120);
  launch.mutable_launch()->add_resume_files()->set_path("model.pt");
  Command(launch);
  const Actions prepared = Say(LaunchRecordedInput{kKey});
  EXPECT_EQ(Of<FetchAction>(prepared).size(), 1u);
  EXPECT_TRUE(Of<SpawnAction>(prepared).empty());
  EXPECT_EQ(Of<SpawnAction>(Say(FetchedInput{kKey, ""})).size(), 1u);
}

TEST_F(LaunchTest, FailedFetchFailsTheLaunchAndNamesTheStep) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->set_resume_step(120);
  launch.mutable_launch()->add_resume_files()->set_path("model.pt");
  Command(launch);
  Say(LaunchRecordedInput{kKey});
  const auto status = LastStatus(Say(FetchedInput{kKey, "No space left on device"}));
  EXPECT_FALSE(status.resume_damaged());
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(status.failure(), "cannot fetch checkpoint step-120: No space left on device");
}

TEST_F(LaunchTest, ADamagedCheckpointIsReportedAsSuch) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->set_resume_step(120);
  launch.mutable_launch()->add_resume_files()->set_path("model.pt");
  Command(launch);
  Say(LaunchRecordedInput{kKey});
  const auto status = LastStatus(Say(FetchedInput{kKey, "model.pt: wrong hash", true}));
  EXPECT_TRUE(status.resume_damaged());
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED);
}

TEST_F(LaunchTest, StopWhileFetchingEndsAtOnceAndALateFetchStartsNothing) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->set_resume_step(120);
  launch.mutable_launch()->add_resume_files()->set_path("model.pt");
  Command(launch);
  Say(LaunchRecordedInput{kKey});
  const Actions stopped = Command(StopOf(kKey));
  EXPECT_EQ(LastStatus(stopped).phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(Of<CancelFetchAction>(stopped).size(), 1u);
  EXPECT_TRUE(Of<SpawnAction>(Say(FetchedInput{kKey, ""})).empty());
}

TEST_F(LaunchTest, StopOfAnUnknownAttemptAnswersEndedAndALaterLaunchStartsNothing) {
  Connect();
  EXPECT_EQ(LastStatus(Command(StopOf(kKey))).phase(), v1::ATTEMPT_PHASE_ENDED);
  const Actions launched = Command(Launch(kKey));
  EXPECT_TRUE(Of<RecordLaunchAction>(launched).empty());
  EXPECT_EQ(LastStatus(launched).phase(), v1::ATTEMPT_PHASE_ENDED);
}

TEST_F(LaunchTest, StopOfARunningAttemptWaitsForTheShimsProof) {
  Connect();
  Run(kKey);
  const Actions stopped = Command(StopOf(kKey, 1'500));
  ASSERT_EQ(Of<StopShimAction>(stopped).size(), 1u);
  EXPECT_EQ(Of<StopShimAction>(stopped)[0].grace_ms, 1'500u);
  EXPECT_EQ(Of<NotifyStopAction>(stopped).size(), 1u);
  EXPECT_TRUE(Statuses(stopped).empty());
  const auto ended = LastStatus(Say(AttemptEndedInput{kKey, "empty", "", {}}));
  EXPECT_EQ(ended.phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(ended.how_ended(), "empty");
}

TEST_F(LaunchTest, RanksSayWhatTheyDoWhenAskedAndTheirAnswersGoBackUnderTheNumber) {
  Connect();
  v1::CoordinatorMessage ask;
  ask.mutable_diagnose()->set_job(kKey.job);
  ask.mutable_diagnose()->set_attempt(kKey.attempt);
  ask.mutable_diagnose()->set_number(9);
  EXPECT_TRUE(Of<DiagnoseAction>(Command(ask)).empty());  // nothing is running here
  Run(kKey);
  const Actions asked = Command(ask);
  ASSERT_EQ(Of<DiagnoseAction>(asked).size(), 1u);
  EXPECT_EQ(Of<DiagnoseAction>(asked)[0].number, 9u);
  const Actions answered = Say(DiagnosisInput{kKey, 1, 9, "{}"});
  ASSERT_EQ(Of<SendAction>(answered).size(), 1u);
  const v1::RankDiagnosis diagnosis = Of<SendAction>(answered)[0].message.diagnosis();
  EXPECT_EQ(diagnosis.job(), kKey.job);
  EXPECT_EQ(diagnosis.rank(), 1u);
  EXPECT_EQ(diagnosis.number(), 9u);
  EXPECT_EQ(diagnosis.record(), "{}");
  EXPECT_TRUE(Say(DiagnosisInput{kKey, 1, 0, "{}"}).empty());  // this worker's own request
}

TEST_F(LaunchTest, WhatARankHasLoadedIsReportedOnceWithTheDriverOfADevice) {
  Connect();
  state_.facts.set_driver("550.54.15");
  Run(kKey);
  const v1::Versions cpu =
      LastStatus(Say(FrameworkSeenInput{kKey, "torch 2.11.0", "13.0"})).versions();
  EXPECT_EQ(cpu.framework(), "torch 2.11.0");
  EXPECT_EQ(cpu.toolkit(), "13.0");
  EXPECT_EQ(cpu.driver(), "") << "it runs on cpu slots";
  EXPECT_TRUE(Say(FrameworkSeenInput{kKey, "torch 2.12.0", "13.0"}).empty());
  state_.attempts.at(kKey).status.clear_versions();
  state_.attempts.at(kKey).launch.mutable_part()->set_device_kind("gpu");
  EXPECT_EQ(LastStatus(Say(FrameworkSeenInput{kKey, "torch 2.11.0", "13.0"})).versions().driver(),
            "550.54.15");
  EXPECT_TRUE(Say(FrameworkSeenInput{{8, 0}, "torch 2.11.0", ""}).empty()) << "it has ended";
}

TEST_F(LaunchTest, ACommandOfNotifyRunsForAJobThatIsForgotten) {
  Connect();
  v1::CoordinatorMessage order;
  order.mutable_run_notify()->set_job(8);
  order.mutable_run_notify()->set_delivery("c-8-0");
  state_.cleared = false;
  const Actions run = Command(order);
  ASSERT_EQ(Of<RunNotifyAction>(run).size(), 1u);
  EXPECT_EQ(Of<RunNotifyAction>(run)[0].order.delivery(), "c-8-0");
  v1::NotifyEnded ended;
  ended.set_delivery("c-8-0");
  const Actions answered = Say(NotifyEndedInput{ended});
  ASSERT_EQ(Of<SendAction>(answered).size(), 1u);
  EXPECT_EQ(Of<SendAction>(answered)[0].message.notify_ended().delivery(), "c-8-0");
}

TEST_F(LaunchTest, AStopBecauseARankFailedFirstAsksTheOthersWhatTheyDo) {
  Connect();
  Run(kKey);
  v1::CoordinatorMessage stop = StopOf(kKey);
  stop.mutable_stop()->set_cause(v1::STOP_CAUSE_RANK_FAILED);
  const Actions stopped = Command(stop);
  ASSERT_EQ(Of<DiagnoseAction>(stopped).size(), 1u);
  EXPECT_EQ(Of<DiagnoseAction>(stopped)[0].number, 0u);
  EXPECT_TRUE(std::holds_alternative<DiagnoseAction>(stopped[0]));
  EXPECT_TRUE(Of<DiagnoseAction>(Command(stop)).empty());  // only once
}

TEST_F(LaunchTest, RepeatedStopCanOnlyShortenTheGrace) {
  Connect();
  Run(kKey);
  Command(StopOf(kKey, 1'000));
  EXPECT_EQ(Of<StopShimAction>(Command(StopOf(kKey, 30'000)))[0].grace_ms, 1'000u);
  EXPECT_EQ(Of<StopShimAction>(Command(StopOf(kKey, 0)))[0].grace_ms, 0u);
}

TEST_F(LaunchTest, ExitsAreReportedOnceEach) {
  Connect();
  Run(kKey);
  v1::RankExit exit;
  exit.set_rank(1);
  exit.set_exit_code(7);
  EXPECT_EQ(LastStatus(Say(RankExitedInput{kKey, exit})).exits_size(), 1);
  EXPECT_TRUE(Statuses(Say(RankExitedInput{kKey, exit})).empty());
}

TEST_F(LaunchTest, RanksThatTheirSupervisorStoppedUnaskedAreALostNode) {
  Connect();
  Run(kKey);
  v1::RankExit exit;
  exit.set_rank(1);
  exit.set_signal(15);
  exit.set_stopped_by_us(true);
  EXPECT_EQ(LastStatus(Say(RankExitedInput{kKey, exit})).failure_cause(), v1::STOP_CAUSE_NODE_LOST);
  const AttemptKey asked{kKey.job + 1, 0};
  Run(asked);
  Command(StopOf(asked, 1'000));
  EXPECT_EQ(LastStatus(Say(RankExitedInput{asked, exit})).failure(), "");
}

TEST_F(LaunchTest, AStatusOfAsManyFailuresAsAShimHoldsFitsIntoAMessage) {
  Run({42, 0});
  Actions last;
  for (uint32_t rank = 0; rank < common::kRanksPerShimMax; ++rank) {
    RankExitedInput input{{42, 0}, {}};
    input.exit.set_rank(rank);
    input.exit.set_exit_code(1);
    input.exit.set_error_message(std::string(100'000, 'e'));
    input.exit.set_last_lines(std::string(100'000, 'l'));
    last = Say(input);
  }
  const auto statuses = Statuses(last);
  EXPECT_EQ(statuses.size(), 0u);  // nothing is sent without a link
  const v1::AttemptStatus status = StatusOf(state_.attempts.at({42, 0}));
  ASSERT_EQ(status.exits_size(), static_cast<int>(common::kRanksPerShimMax));
  EXPECT_EQ(status.exits(0).error_message().size(), common::kErrorMessageBytesMax);
  EXPECT_EQ(status.exits(0).last_lines().size(), common::kLastLinesBytesMax);
  EXPECT_EQ(status.exits(4'000).error_message().size(), common::kFailureShortBytes);
  EXPECT_LE(status.ByteSizeLong(), common::kControlMessageBytesMax);
}

TEST_F(LaunchTest, ForgottenAttemptWaitsForItsLogsAndIsNeverLaunchedAgain) {
  Connect();
  Run(kKey);
  Say(AttemptEndedInput{kKey, "empty", "", {}});
  EXPECT_TRUE(Of<DeleteAttemptAction>(Command(ForgetOf(kKey))).empty());
  EXPECT_TRUE(Of<DeleteAttemptAction>(Say(FinalScanDoneInput{kKey})).empty());
  EXPECT_EQ(Of<DeleteAttemptAction>(Say(OutputDrainedInput{kKey})).size(), 1u);
  const Actions again = Command(Launch(kKey));
  EXPECT_TRUE(Of<RecordLaunchAction>(again).empty());
  EXPECT_EQ(LastStatus(again).phase(), v1::ATTEMPT_PHASE_ENDED);
}

TEST_F(LaunchTest, ForgettingALiveAttemptKillsIt) {
  Connect();
  Run(kKey);
  const Actions actions = Command(ForgetOf(kKey));
  ASSERT_EQ(Of<StopShimAction>(actions).size(), 1u);
  EXPECT_EQ(Of<StopShimAction>(actions)[0].grace_ms, 0u);
}

TEST_F(LaunchTest, NewAttemptWaitsUntilTheOlderOneIsGoneHere) {
  Connect();
  Run(kKey);
  const AttemptKey next{42, 1};
  const Actions launched = Command(Launch(next));
  EXPECT_TRUE(Of<RecordLaunchAction>(launched).empty());
  EXPECT_EQ(Of<StopShimAction>(launched).size(), 1u);
  const Actions ended = Say(AttemptEndedInput{kKey, "empty", "", {}});
  ASSERT_EQ(Of<RecordLaunchAction>(ended).size(), 1u);
  EXPECT_EQ(Of<RecordLaunchAction>(ended)[0].key, next);
}

TEST_F(LaunchTest, OlderAttemptThanAKnownOneIsRefused) {
  Connect();
  Run({42, 3});
  const Actions actions = Command(Launch({42, 2}));
  EXPECT_TRUE(Of<RecordLaunchAction>(actions).empty());
  EXPECT_EQ(LastStatus(actions).how_ended(), "superseded by attempt 3");
}

TEST_F(LaunchTest, RestoredAttemptIsReportedAndGoesOnWithItsShimsStory) {
  v1::LaunchAttempt launch = Launch(kKey).launch();
  Say(RestoredInput{kKey, launch, 0});
  Say(RanksStartedInput{kKey, 2});
  const Actions up = Say(LinkUpInput{});
  const v1::Register registration = Of<SendAction>(up)[0].message.register_();
  ASSERT_EQ(registration.attempts_size(), 1);
  EXPECT_EQ(registration.attempts(0).phase(), v1::ATTEMPT_PHASE_RUNNING);
}

TEST_F(LaunchTest, EveryStageButTheLastCanEnd) {
  for (Stage stage : {Stage::kNew, Stage::kPreparing, Stage::kWaiting, Stage::kRecording,
                      Stage::kFetching, Stage::kSpawning, Stage::kRunning}) {
    bool found = false;
    for (const StageRow& row : StageRows()) {
      found |= row.from == stage && row.change == Change::kEnd && row.to == Stage::kEnded;
    }
    EXPECT_TRUE(found) << StageName(stage);
  }
  for (const StageRow& row : StageRows()) EXPECT_NE(row.from, Stage::kEnded);
}

}  // namespace
}  // namespace muster::worker
