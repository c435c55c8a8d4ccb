// More consequences than one turn takes, and a journal that contradicts itself.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/version.h"
#include "coordinator/core/outcome/checkpoint_rules.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/turn.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

constexpr size_t kOfOneTurnMax = 300;

class SettleTest : public ::testing::Test {
 protected:
  SettleTest() {
    WorkerRegisteredInput registered{1, {}};
    v1::NodeFacts& facts = *registered.message.mutable_facts();
    facts.set_name("a");
    facts.set_protocol(common::kProtocol);
    facts.set_incarnation(1);
    facts.add_devices()->set_kind("cpu");
    Take(registered);
    v1::WorkerMessage cleared;
    cleared.mutable_cleared();
    Say(std::move(cleared));
    SubmitInput submit;
    v1::JobSpec& spec = *submit.request.mutable_spec();
    spec.add_command("train");
    spec.set_workdir("/");
    spec.mutable_shape()->set_processes(1);
    spec.mutable_shape()->mutable_device()->set_kind("cpu");
    Take(submit);
    v1::WorkerMessage held;
    held.mutable_attempt_status()->set_job(1);
    held.mutable_attempt_status()->set_master_port(20'000);
    held.mutable_attempt_status()->set_ready(true);
    Say(held);
    held.mutable_attempt_status()->set_ranks_started(1);
    Say(std::move(held));
  }

  Turn Keep(Turn turn) {
    EXPECT_LE(turn.events.size(), kOfOneTurnMax);
    for (const v1::Event& event : turn.events) {
      if (IsJournaled(event)) journal_.push_back(event);
    }
    finished_.insert(finished_.end(), turn.finished.begin(), turn.finished.end());
    return turn;
  }
  Turn Take(Input input) {
    now_.mono_ms += 1'000;
    return Keep(TakeTurn(state_, {&input, 1}, now_));
  }
  Turn Say(v1::WorkerMessage message) { return Take(WorkerSaidInput{1, "a", std::move(message)}); }

  // Half of a checkpoint of two parts.
  Turn SayHalf(int64_t step) {
    v1::WorkerMessage message;
    v1::CheckpointPartReady& part = *message.mutable_checkpoint_part();
    part.set_job(1);
    part.set_step(step);
    part.set_parts(2);
    return Say(std::move(message));
  }
  // As a journal has them that was written before there was a limit.
  void AddHalves(int count) {
    for (int step = 0; step < count; ++step) {
      v1::Event event;
      event.set_job(1);
      event.set_seq(state_.next_seq);
      event.mutable_checkpoint_part()->set_step(step);
      event.mutable_checkpoint_part()->set_parts(2);
      Apply(state_, event, now_);
      journal_.push_back(event);
    }
  }
  Turn EndRanks() {
    v1::WorkerMessage ended;
    v1::AttemptStatus& status = *ended.mutable_attempt_status();
    status.set_job(1);
    status.set_phase(v1::ATTEMPT_PHASE_ENDED);
    status.add_exits();
    return Say(std::move(ended));
  }
  // By the loop's own timer alone: returns the turns that it took.
  int SettleByTimer() {
    int turns = 0;
    for (; NextDeadlineMonoMs(state_) <= now_.mono_ms && turns < 100; ++turns) {
      const Input tick = TickInput{};
      Keep(TakeTurn(state_, {&tick, 1}, now_));
    }
    return turns;
  }
  void ExpectSucceeded() {
    ASSERT_EQ(finished_.size(), 1u);
    EXPECT_EQ(finished_[0].state(), v1::JOB_STATE_SUCCEEDED);
    EXPECT_TRUE(finished_[0].checkpoints().empty());
    EXPECT_TRUE(state_.unsettled.empty());
  }

  ClusterState state_;
  Now now_{10'000, 1'000'000, 10'000};
  std::vector<v1::Event> journal_;
  std::vector<v1::JobRecord> finished_;
};

TEST_F(SettleTest, UnfinishedCheckpointsByTheThousandAreRemovedOverSeveralTurns) {
  ASSERT_EQ(state_.jobs.at(1).state(), v1::JOB_STATE_RUNNING);
  AddHalves(1'100);
  EndRanks();
  EXPECT_TRUE(finished_.empty());
  EXPECT_GE(SettleByTimer(), 4);
  ExpectSucceeded();
}

TEST_F(SettleTest, AReplayContinuesWhatTheLastRunLeftUnsettled) {
  AddHalves(1'100);
  EndRanks();
  ClusterState fresh;
  for (const v1::Event& event : journal_) ASSERT_TRUE(ReplayEvent(fresh, event, now_).ok());
  state_ = std::move(fresh);
  Keep(ResumeAfterReplay(state_, now_));
  EXPECT_TRUE(finished_.empty());
  EXPECT_GE(SettleByTimer(), 3);
  ExpectSucceeded();
}

TEST_F(SettleTest, AJobMayNotBeginCheckpointsWithoutEnd) {
  AddHalves(kUnfinishedCheckpointsMax - 1);
  SayHalf(5'000);
  const Turn turn = SayHalf(5'001);
  ASSERT_EQ(turn.commands.size(), 1u);
  const v1::CheckpointAck& ack = turn.commands[0].message.checkpoint_ack();
  EXPECT_TRUE(ack.refused());
  EXPECT_NE(ack.reason().find("step 5001 would be the 1001th"), std::string::npos) << ack.reason();
  // A further part of one that is known is taken.
  v1::WorkerMessage other;
  v1::CheckpointPartReady& part = *other.mutable_checkpoint_part();
  part.set_job(1);
  part.set_step(5'000);
  part.set_part(1);
  part.set_parts(2);
  Say(std::move(other));
  const v1::JobRecord& job = state_.jobs.at(1);
  EXPECT_EQ(FindCheckpoint(job, 5'000, 0)->state(), v1::CHECKPOINT_STATE_COMMITTED);
  EXPECT_EQ(FindCheckpoint(job, 5'001, 0), nullptr);
}

TEST_F(SettleTest, NumbersThatAreNoSignalsAreRefusedAndNotRemembered) {
  for (const int32_t number : {0, -1, 65, INT32_MIN, INT32_MAX}) {
    const Turn turn = Take(SignalInput{{}, 1, number});
    EXPECT_TRUE(absl::IsInvalidArgument(turn.replies[0].status)) << number;
    EXPECT_TRUE(turn.events.empty() && turn.commands.empty());
  }
  EXPECT_EQ(common::MessageOf(Take(SignalInput{{}, 1, -7}).replies[0].status),
            "[JC1004] -7 is not a signal: they are numbered 1 to 64; fix: name one, such as 10 "
            "(SIGUSR1) or "
            "15 (SIGTERM)");
  for (const int32_t number : {1, 64, 64}) {
    const Turn turn = Take(SignalInput{{}, 1, number});
    EXPECT_TRUE(turn.replies[0].status.ok());
    EXPECT_EQ(turn.commands.size(), 1u);
  }
  v1::Event old;  // of a journal from before there was a check
  old.set_job(1);
  for (int32_t number = -1'000; number < 1'000; ++number) {
    old.mutable_signal_sent()->set_signal(number);
    ASSERT_TRUE(ReplayEvent(state_, old, now_).ok());
  }
  EXPECT_EQ(state_.jobs.at(1).attempts(0).signals_sent_size(), kSignalsMax);
}

TEST_F(SettleTest, ACancellationsGraceIsThatOfAJobAtMost) {
  CancelInput cancel{.jobs = {1}, .has_grace = true, .grace_ms = 86'400'001};
  const Turn refused = Take(cancel);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.replies[0].status));
  EXPECT_TRUE(refused.events.empty());
  cancel.grace_ms = 86'400'000;
  EXPECT_TRUE(Take(cancel).replies[0].status.ok());
  EXPECT_EQ(state_.jobs.at(1).state(), v1::JOB_STATE_STOPPING);
}

// Each event once damaged in a way that still parses: it is refused, or can be applied.
TEST_F(SettleTest, AnEventThatDoesNotFollowFromThoseBeforeItIsRefused) {
  const auto refuse = [&](v1::Event event) {
    ClusterState state = state_;
    const absl::Status status = ReplayEvent(state, event, now_);
    EXPECT_TRUE(absl::IsDataLoss(status)) << event.ShortDebugString();
    return std::string(status.message());
  };
  v1::Event event;
  event.set_seq(77);
  event.set_job(9);
  event.mutable_reason_changed();
  EXPECT_EQ(refuse(event), "event 77 does not follow from those before it: there is no job 9");
  event.set_job(1);
  event.mutable_part_ended();
  event.set_node("b");
  refuse(event);
  event.mutable_job_state_changed()->set_from(v1::JOB_STATE_RUNNING);
  event.mutable_job_state_changed()->set_to(v1::JOB_STATE_QUEUED);
  refuse(event);
  event.mutable_node_removed();
  refuse(event);
  event.mutable_attempt_started();
  refuse(event);
  event.mutable_attempt_started()->mutable_attempt()->add_parts()->set_node("a");
  event.mutable_attempt_started()->mutable_attempt()->set_resume_step(7);
  refuse(event);
  *event.mutable_job_submitted()->mutable_record() = state_.jobs.at(1);
  event.mutable_job_submitted()->mutable_record()->set_state(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(refuse(event),
            "event 77 does not follow from those before it: job 1 was submitted before");
}

TEST_F(SettleTest, AJournalInWhichAJobStartsTwiceIsRefused) {
  ClusterState state;
  for (const v1::Event& event : journal_) {
    ASSERT_TRUE(ReplayEvent(state, event, now_).ok());
    if (!event.has_attempt_started()) continue;
    EXPECT_TRUE(absl::IsDataLoss(ReplayEvent(state, event, now_)));
    return;
  }
  FAIL() << "no attempt has started";
}

TEST_F(SettleTest, ACauseThatNoVersionKnowsIsNone) {
  v1::WorkerMessage ended;
  v1::AttemptStatus& status = *ended.mutable_attempt_status();
  status.set_job(1);
  status.set_phase(v1::ATTEMPT_PHASE_ENDED);
  status.set_failure("odd");
  status.set_failure_cause(static_cast<v1::StopCause>(77));
  Say(std::move(ended));
  for (const v1::Event& event : journal_) EXPECT_FALSE(DescribeEvent(event).empty());
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(CauseName(static_cast<v1::StopCause>(77)), "UNKNOWN");
}

// A disk that flips one bit of a journal: the replay ends with an error, or the coordinator runs.
TEST_F(SettleTest, NoFlippedBitOfAJournalAbortsTheCoordinator) {
  SayHalf(7);
  Take(SignalInput{{}, 1, 10});
  EndRanks();
  ASSERT_EQ(finished_.size(), 1u);
  int refused = 0, taken = 0;
  for (size_t at = 0; at < journal_.size(); ++at) {
    const std::string bytes = journal_[at].SerializeAsString();
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      v1::Event event;
      if (!event.ParseFromString(flipped)) continue;
      ClusterState state;
      absl::Status fits;
      for (size_t i = 0; i < journal_.size() && fits.ok(); ++i) {
        fits = ReplayEvent(state, i == at ? event : journal_[i], now_);
        // Each event may be the last: the run was killed there.
        if (!fits.ok() || i < at) continue;
        if (!CheckReplayed(state).ok()) continue;
        ClusterState last = state;
        TakeFinished(last);
        ResumeAfterReplay(last, now_);
        const Input tick = TickInput{};
        TakeTurn(last, {&tick, 1}, {now_.mono_ms + 1'000'000, now_.wall_ms, now_.lived_ms});
      }
      ++(fits.ok() ? taken : refused);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(taken, 100);
}

TEST_F(SettleTest, OnlyASnapshotWithASealedEnvironmentIsOneThatOlderReleasesRefuse) {
  EXPECT_EQ(MakeSnapshot(state_).format(), 1u);
  state_.jobs.Edit(state_.jobs.begin()->first).mutable_spec()->set_sealed_env("sealed");
  const v1::Snapshot snapshot = MakeSnapshot(state_);
  EXPECT_EQ(snapshot.format(), 2u);
  ClusterState state;
  EXPECT_TRUE(ReplaySnapshot(state, snapshot, now_).ok());
  EXPECT_EQ(state.jobs.begin()->second.spec().sealed_env(), "sealed");
}

TEST_F(SettleTest, ASnapshotThatContradictsItselfOrIsOfANewerFormatIsRefused) {
  v1::Snapshot snapshot = MakeSnapshot(state_);
  ClusterState state;
  EXPECT_TRUE(ReplaySnapshot(state, snapshot, now_).ok());
  snapshot.mutable_jobs(0)->clear_attempts();
  EXPECT_TRUE(absl::IsDataLoss(ReplaySnapshot(state, snapshot, now_)));
  snapshot.set_format(3);
  EXPECT_TRUE(absl::IsFailedPrecondition(ReplaySnapshot(state, snapshot, now_)));
}

}  // namespace
}  // namespace muster::coordinator
