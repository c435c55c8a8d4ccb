#include "tests/worker/core_fixture.h"

namespace muster::worker {
namespace {

constexpr AttemptKey kSecondAttempt{42, 1};
constexpr AttemptKey kOther{43, 0};

class ClearingTest : public CoreTest {
 protected:
  ClearingTest() { state_.cleared = false; }

  static v1::CoordinatorMessage Registered(bool clear) {
    v1::CoordinatorMessage message;
    message.mutable_registered()->set_heartbeat_ms(5'000);
    message.mutable_registered()->set_cluster_id("c1");
    message.mutable_registered()->set_clear(clear);
    return message;
  }
  static std::vector<v1::Cleared> Said(const Actions& actions) {
    std::vector<v1::Cleared> said;
    for (const SendAction& send : Of<SendAction>(actions)) {
      if (send.message.has_cleared()) said.push_back(send.message.cleared());
    }
    return said;
  }
  void Restore(AttemptKey key) { Say(RestoredInput{key, Launch(key).launch(), 0}); }
};

TEST_F(ClearingTest, AWorkerThatIsNotAcceptedEndsNothing) {
  Restore(kSecondAttempt);
  EXPECT_TRUE(Of<ClearHostAction>(Say(LinkUpInput{})).empty());
  EXPECT_TRUE(Of<ClearHostAction>(Say(LinkDownInput{})).empty());
}

TEST_F(ClearingTest, AnAcceptedWorkerClearsItsHostAndThenSaysWhatItHolds) {
  Restore(kSecondAttempt);
  Say(LinkUpInput{});
  EXPECT_EQ(Of<ClearHostAction>(Command(Registered(true))).size(), 1u);
  const std::vector<v1::Cleared> said = Said(Say(HostClearedInput{}));
  ASSERT_EQ(said.size(), 1u);
  ASSERT_EQ(said[0].held_size(), 1);
  EXPECT_EQ(said[0].held(0).job(), kSecondAttempt.job);
  // A reconnection reports it in the registration and clears nothing again.
  Say(LinkDownInput{});
  const Actions up = Say(LinkUpInput{});
  EXPECT_TRUE(Of<SendAction>(up)[0].message.register_().cleared());
  EXPECT_TRUE(Of<ClearHostAction>(Command(Registered(false))).empty());
}

TEST_F(ClearingTest, CommandsAboutAttemptsThatAreNotHeldWaitUntilThen) {
  Restore(kSecondAttempt);
  Say(LinkUpInput{});
  Command(Registered(true));
  EXPECT_TRUE(Of<RecordLaunchAction>(Command(Launch(kOther))).empty());
  EXPECT_TRUE(Statuses(Command(StopOf({44, 0}))).empty());
  EXPECT_EQ(Of<StopShimAction>(Command(StopOf(kSecondAttempt))).size(), 1u);
  const Actions cleared = Say(HostClearedInput{});
  EXPECT_EQ(Of<RecordLaunchAction>(cleared).size(), 1u);
  EXPECT_EQ(Statuses(cleared).size(), 2u);
}

TEST_F(ClearingTest, ALostLinkLeavesTheRestAloneAndTheNextRegistrationBeginsAnew) {
  Say(LinkUpInput{});
  Command(Registered(true));
  Command(Launch(kOther));
  EXPECT_EQ(Of<AbandonClearingAction>(Say(LinkDownInput{})).size(), 1u);
  EXPECT_TRUE(Said(Say(HostClearedInput{})).empty());
  EXPECT_FALSE(state_.cleared);
  EXPECT_FALSE(Of<SendAction>(Say(LinkUpInput{}))[0].message.register_().cleared());
  EXPECT_EQ(Of<ClearHostAction>(Command(Registered(true))).size(), 1u);
  EXPECT_TRUE(
      Of<RecordLaunchAction>(Say(HostClearedInput{})).empty());  // belongs to the link that is gone
}

TEST_F(ClearingTest, AnotherWorkerStoodInSoTheHostIsClearedAgain) {
  state_.cleared = true;
  Command(Launch(kOther));  // preparing: its shim may start meanwhile
  Say(LinkUpInput{});
  const auto clear = Of<ClearHostAction>(Command(Registered(true)));
  ASSERT_EQ(clear.size(), 1u);
  EXPECT_EQ(clear[0].live, std::vector<AttemptKey>{kOther});
}

TEST_F(ClearingTest, RanksWithoutARecordAreReportedAndTheirAttemptNeverStartsHereAgain) {
  Say(LinkUpInput{});
  Command(Registered(true));
  Command(Launch(kSecondAttempt));
  const v1::AttemptStatus status =
      LastStatus(Say(LeftoverInput{kSecondAttempt, "its record was lost"}));
  EXPECT_EQ(status.phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_SUPERVISOR_LOST);
  EXPECT_TRUE(Of<RecordLaunchAction>(Say(HostClearedInput{})).empty());
}

}  // namespace
}  // namespace muster::worker
