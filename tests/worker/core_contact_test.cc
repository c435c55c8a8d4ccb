#include "tests/worker/core_fixture.h"

namespace muster::worker {
namespace {

class ContactTest : public CoreTest {};

TEST_F(ContactTest, RegistrationSaysEverythingThatIsHeld) {
  Run(kKey);  // commands are handled whatever the link's state
  state_.highest_epoch = 9;
  const Actions up = Say(LinkUpInput{});
  ASSERT_EQ(Of<SendAction>(up).size(), 1u);
  const v1::Register message = Of<SendAction>(up)[0].message.register_();
  EXPECT_EQ(message.facts().name(), "node-a");
  EXPECT_EQ(message.attempts_size(), 1);
  EXPECT_EQ(message.highest_epoch(), 9u);
}

TEST_F(ContactTest, CommandsOfALowerEpochChangeNothingAndAreCounted) {
  Connect();
  v1::CoordinatorMessage launch = Launch(kKey);
  EXPECT_EQ(Of<ResetLinkAction>(Command(launch, 4)).size(), 1u);
  EXPECT_TRUE(state_.attempts.empty());
  EXPECT_EQ(state_.stale_commands, 1u);
}

TEST_F(ContactTest, HigherEpochIsDurableBeforeTheCommandIsObeyed) {
  Connect();
  const Actions actions = Command(Launch(kKey), 6);
  ASSERT_FALSE(actions.empty());
  ASSERT_NE(std::get_if<PersistEpochAction>(&actions[0]), nullptr);
  EXPECT_EQ(std::get<PersistEpochAction>(actions[0]).epoch, 6u);
}

TEST_F(ContactTest, HeartbeatsAreNumberedAndPaced) {
  Connect(1'000);
  EXPECT_TRUE(Of<SendAction>(Say(TickInput{})).empty());
  now_ms_ += 1'000;
  const Actions beat = Say(TickInput{77});
  ASSERT_EQ(Of<SendAction>(beat).size(), 1u);
  EXPECT_EQ(Of<SendAction>(beat)[0].message.heartbeat().number(), 1u);
  EXPECT_EQ(Of<SendAction>(beat)[0].message.heartbeat().spool_bytes(), 77u);
  EXPECT_EQ(NextDeadlineMonoMs(state_), now_ms_ + 1'000);
}

TEST_F(ContactTest, SilentLinkIsCutAfterThreeHeartbeats) {
  Connect(1'000);
  now_ms_ += 2'999;
  EXPECT_TRUE(Of<ResetLinkAction>(Say(TickInput{})).empty());
  now_ms_ += 1;
  EXPECT_EQ(Of<ResetLinkAction>(Say(TickInput{})).size(), 1u);
  EXPECT_EQ(state_.contact.link, LinkStage::kDown);
}

TEST_F(ContactTest, ASilentLinkIsCutSoonerIfAnotherCoordinatorMayLead) {
  Say(LinkUpInput{});
  v1::CoordinatorMessage message;
  message.mutable_registered()->set_heartbeat_ms(5'000);
  message.mutable_registered()->add_heads("a:7700");
  message.mutable_registered()->add_heads("b:7700");
  const Actions registered = Command(message);
  ASSERT_EQ(Of<RegisteredAction>(registered).size(), 1u);
  EXPECT_EQ(Of<RegisteredAction>(registered)[0].heads,
            (std::vector<std::string>{"a:7700", "b:7700"}));
  now_ms_ += 5'000 + kLinkSilenceMinMs - 1;
  EXPECT_TRUE(Of<ResetLinkAction>(Say(TickInput{})).empty());
  now_ms_ += 1;
  EXPECT_EQ(Of<ResetLinkAction>(Say(TickInput{})).size(), 1u);
}

TEST_F(ContactTest, CoordinatorsThatComeLaterAreNamedByAHeartbeat) {
  Connect(1'000);
  now_ms_ += 1'000;
  Say(TickInput{});
  v1::CoordinatorMessage message;
  message.mutable_heartbeat_reply()->set_number(1);
  EXPECT_TRUE(Of<HeadsAction>(Command(message)).empty());
  now_ms_ += 1'000;
  Say(TickInput{});
  message.mutable_heartbeat_reply()->set_number(2);
  message.mutable_heartbeat_reply()->add_heads("a:7700");
  message.mutable_heartbeat_reply()->add_heads("b:7700");
  message.mutable_heartbeat_reply()->add_https("b:7701");
  const auto named = Of<HeadsAction>(Command(message));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].heads, (std::vector<std::string>{"a:7700", "b:7700"}));
  EXPECT_EQ(named[0].https, std::vector<std::string>{"b:7701"});
  EXPECT_TRUE(state_.contact.has_other_heads);
}

TEST_F(ContactTest, AnUnansweredRegistrationIsCut) {
  Say(LinkUpInput{});
  now_ms_ += kRegisterTimeoutMs;
  EXPECT_EQ(Of<ResetLinkAction>(Say(TickInput{})).size(), 1u);
}

TEST_F(ContactTest, NothingIsSentWithoutALink) {
  Run(kKey);
  v1::RankExit exit;
  EXPECT_TRUE(Of<SendAction>(Say(RankExitedInput{kKey, exit})).empty());
}

TEST_F(ContactTest, ReplacedJobsStopThemselvesAfterStopAfter) {
  Connect();
  v1::CoordinatorMessage launch = Launch(kKey);
  launch.mutable_launch()->mutable_spec()->set_stop_after_ms(20'000);
  launch.mutable_launch()->mutable_spec()->set_grace_ms(300);
  Command(launch);
  Say(LaunchRecordedInput{kKey});
  Say(RanksStartedInput{kKey, 2});
  Say(LinkDownInput{});
  EXPECT_EQ(NextDeadlineMonoMs(state_), now_ms_ + 20'000);
  now_ms_ += 19'999;
  EXPECT_TRUE(Of<StopShimAction>(Say(TickInput{})).empty());
  now_ms_ += 1;
  const Actions fenced = Say(TickInput{});
  ASSERT_EQ(Of<StopShimAction>(fenced).size(), 1u);
  EXPECT_EQ(Of<StopShimAction>(fenced)[0].grace_ms, 300u);
  Say(AttemptEndedInput{kKey, "empty", "", {}});
  EXPECT_EQ(StatusOf(state_.attempts[kKey]).failure_cause(), v1::STOP_CAUSE_NODE_LOST);
}

// Runs kKey with a fence 20 s after the last contact and 300 ms of grace.
class StandstillTest : public ContactTest {
 protected:
  StandstillTest() { Connect(); }
  v1::CoordinatorMessage Fenced() const {
    v1::CoordinatorMessage launch = Launch(kKey);
    launch.mutable_launch()->mutable_spec()->set_stop_after_ms(20'000);
    launch.mutable_launch()->mutable_spec()->set_grace_ms(300);
    return launch;
  }
  void RunFenced() {
    Command(Fenced());
    Say(LaunchRecordedInput{kKey});
    Say(RanksStartedInput{kKey, 2});
  }
};

TEST_F(StandstillTest, TheGraceOfAFenceEndsWhenItWouldHaveEndedHoweverLateItIsNoticed) {
  RunFenced();
  now_ms_ += 20'100;
  const Actions fenced = Say(TickInput{});
  ASSERT_EQ(Of<StopShimAction>(fenced).size(), 1u);
  EXPECT_EQ(Of<StopShimAction>(fenced)[0].grace_ms, 200u);
  EXPECT_TRUE(Of<KillRanksAction>(fenced).empty());
  EXPECT_EQ(NextDeadlineMonoMs(state_), now_ms_ + 200);
  now_ms_ += 199;
  EXPECT_TRUE(Of<KillRanksAction>(Say(TickInput{})).empty());
  now_ms_ += 1;
  EXPECT_EQ(Of<KillRanksAction>(Say(TickInput{})).size(), 1u);
  EXPECT_TRUE(Of<KillRanksAction>(Say(TickInput{})).empty()) << "once";
}

TEST_F(StandstillTest, RanksOfANodeThatStoodStillForAnHourAreKilledAtOnce) {
  RunFenced();
  now_ms_ += 3'600'000;
  const Actions fenced = Say(TickInput{});
  ASSERT_EQ(Of<StopShimAction>(fenced).size(), 1u);
  EXPECT_EQ(Of<StopShimAction>(fenced)[0].grace_ms, 0u);
  EXPECT_EQ(Of<KillRanksAction>(fenced).size(), 1u);
}

TEST_F(StandstillTest, WhatWasPreparedBeforeItIsNotStartedAfterIt) {
  Command(Fenced());
  now_ms_ += 20'000;
  // The directories were made before, and that is read before any timer expires.
  EXPECT_TRUE(Of<SpawnAction>(Say(LaunchRecordedInput{kKey})).empty());
  EXPECT_FALSE(IsLive(state_.attempts[kKey]));
  EXPECT_EQ(StatusOf(state_.attempts[kKey]).failure_cause(), v1::STOP_CAUSE_NODE_LOST);
}

TEST_F(StandstillTest, WhatWasOrderedLongAgoWaitsUntilTheCoordinatorAnswersAgain) {
  Connect();
  Command(Launch(kKey));
  now_ms_ += kHeartbeatsFresh * 5'000;  // another worker may have this node's name by now
  const Actions late = Say(LaunchRecordedInput{kKey});
  EXPECT_TRUE(Of<SpawnAction>(late).empty());
  EXPECT_EQ(Of<NoteAction>(late).size(), 1u);
  const Actions asked = Say(TickInput{});
  ASSERT_EQ(Of<SendAction>(asked).size(), 1u) << "at once";
  // A new connection gives up what it has to give up before it answers a heartbeat.
  Say(LinkDownInput{});
  Connect();
  EXPECT_FALSE(state_.attempts[kKey].spawned);
  now_ms_ += 5'000;
  const Actions again = Say(TickInput{});
  ASSERT_EQ(Of<SendAction>(again).size(), 1u);
  v1::CoordinatorMessage reply;
  reply.mutable_heartbeat_reply()->set_number(
      Of<SendAction>(again)[0].message.heartbeat().number());
  EXPECT_EQ(Of<SpawnAction>(Command(reply)).size(), 1u);
  EXPECT_TRUE(Of<SpawnAction>(Command(reply)).empty()) << "once";
}

TEST_F(StandstillTest, WhatWaitsForAnAnswerCanBeStopped) {
  Connect();
  Command(Launch(kKey));
  now_ms_ += 60'000;
  Say(LaunchRecordedInput{kKey});
  Command(StopOf(kKey));
  EXPECT_FALSE(IsLive(state_.attempts[kKey]));
  const Actions asked = Say(TickInput{});
  for (const SendAction& send : Of<SendAction>(asked)) {
    v1::CoordinatorMessage reply;
    reply.mutable_heartbeat_reply()->set_number(send.message.heartbeat().number());
    EXPECT_TRUE(Of<SpawnAction>(Command(reply)).empty());
  }
}

TEST_F(StandstillTest, AnUploadIsNotAbandonedForTheTimeInWhichNothingRan) {
  RunFenced();
  Say(CheckpointFoundInput{kKey, 5, 0, 0});
  Say(AttemptEndedInput{kKey, "empty", "", {}});
  now_ms_ += 3'600'000;
  state_.contact.last_heard_mono_ms = now_ms_;  // an answer was waiting in the socket
  Say(TickInput{});
  EXPECT_TRUE(StatusOf(state_.attempts[kKey]).checkpoint_error().empty());
  // What really makes no progress is abandoned as before.
  for (int64_t waited = 0; waited < kUploadStallMs; waited += 1'000) {
    now_ms_ += 1'000;
    state_.contact.last_heard_mono_ms = now_ms_;
    Say(TickInput{});
  }
  EXPECT_FALSE(StatusOf(state_.attempts[kKey]).checkpoint_error().empty());
}

TEST_F(StandstillTest, AJumpOfTheClockIsAskedAboutAtOnceAndStopsNothing) {
  RunFenced();
  Say(TickInput{});
  now_ms_ += 100;
  wall_offset_ms_ += 3'600'000;  // the node was paused, or its clock was set
  const Actions asked = Say(TickInput{});
  ASSERT_EQ(Of<SendAction>(asked).size(), 1u);
  const v1::Heartbeat heartbeat = Of<SendAction>(asked)[0].message.heartbeat();
  EXPECT_TRUE(Of<StopShimAction>(asked).empty());
  EXPECT_EQ(NextDeadlineMonoMs(state_), now_ms_ + kLinkSilenceMinMs);
  // Again while that is unanswered: nothing more.
  wall_offset_ms_ -= 7'200'000;
  EXPECT_TRUE(Of<SendAction>(Say(TickInput{})).empty());
  v1::CoordinatorMessage reply;
  reply.mutable_heartbeat_reply()->set_number(heartbeat.number());
  Command(reply);
  EXPECT_EQ(NextDeadlineMonoMs(state_), now_ms_ + 5'000) << "confirmed: as before";
  // Slewing is not a jump.
  for (int i = 0; i < 10; ++i) {
    wall_offset_ms_ += kClockJumpMs - 1;
    EXPECT_TRUE(Of<SendAction>(Say(TickInput{})).empty());
  }
}

TEST_F(StandstillTest, ALinkThatDoesNotAnswerAfterAJumpOfTheClockIsReplacedSoon) {
  RunFenced();
  Say(TickInput{});
  wall_offset_ms_ += 3'600'000;
  Say(TickInput{});
  now_ms_ += kLinkSilenceMinMs;
  EXPECT_EQ(Of<ResetLinkAction>(Say(TickInput{})).size(), 1u);
  EXPECT_TRUE(Of<StopShimAction>(Say(TickInput{})).empty());
  Connect();
  EXPECT_EQ(NextDeadlineMonoMs(state_), now_ms_ + 5'000);
}

TEST_F(ContactTest, ContactRegainedInTimeKeepsTheRanks) {
  Connect();
  Run(kKey);
  Say(LinkDownInput{});
  now_ms_ += 599'999;
  Connect();
  now_ms_ += 10;
  EXPECT_TRUE(Of<StopShimAction>(Say(TickInput{})).empty());
}

TEST_F(ContactTest, JobsThatWaitForTheirNodeNeverStopThemselves) {
  Connect();
  v1::CoordinatorMessage launch = Launch(kKey);
  launch.mutable_launch()->mutable_spec()->set_on_node_loss(v1::ON_NODE_LOSS_WAIT);
  Command(launch);
  Say(LaunchRecordedInput{kKey});
  Say(LinkDownInput{});
  now_ms_ += 100'000'000;
  EXPECT_TRUE(Of<StopShimAction>(Say(TickInput{})).empty());
}

TEST_F(ContactTest, UnknownMessagesOfANewerCoordinatorAreIgnored) {
  Connect();
  EXPECT_TRUE(Command(v1::CoordinatorMessage()).empty());
}

TEST_F(ContactTest, HeartbeatsCarryHowFarTheClockIsOffAndTheRoomOfTheDisk) {
  Connect();
  const auto heartbeat = [this](int64_t after_ms) {
    now_ms_ += after_ms;
    const Actions actions = Say(TickInput{.disk_bytes = 100, .disk_free_bytes = 7});
    EXPECT_EQ(Of<SendAction>(actions).size(), 1u);
    return Of<SendAction>(actions)[0].message.heartbeat();
  };
  const v1::Heartbeat first = heartbeat(5'000);
  EXPECT_FALSE(first.health().has_clock_ahead_ms()) << "not measured yet";
  EXPECT_EQ(first.health().disk_free_bytes(), 7u);
  v1::CoordinatorMessage reply;
  reply.mutable_heartbeat_reply()->set_number(first.number());
  // Half of the 200 ms that the answer took is the way back.
  now_ms_ += 200;
  reply.mutable_heartbeat_reply()->set_wall_ms(WallMs() - 100 - 2'500);
  Command(reply);
  const v1::Heartbeat second = heartbeat(5'000);
  EXPECT_EQ(second.health().clock_ahead_ms(), 2'500);
  // One that was long under way says nothing.
  reply.mutable_heartbeat_reply()->set_number(second.number());
  reply.mutable_heartbeat_reply()->set_wall_ms(1);
  now_ms_ += 2'000;
  Command(reply);
  EXPECT_EQ(heartbeat(5'000).health().clock_ahead_ms(), 2'500);
}

}  // namespace
}  // namespace muster::worker
