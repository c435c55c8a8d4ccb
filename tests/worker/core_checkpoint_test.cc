#include "tests/worker/core_fixture.h"

namespace muster::worker {
namespace {

class CheckpointTest : public CoreTest {
 protected:
  static v1::CheckpointPartReady Ready(int64_t step, uint32_t part = 0) {
    v1::CheckpointPartReady ready;
    ready.set_job(42);
    ready.set_step(step);
    ready.set_part(part);
    ready.set_parts(1);
    ready.add_files()->set_path("model.pt");
    return ready;
  }
  Actions Ack(int64_t step, bool committed, bool refused = false) {
    v1::CoordinatorMessage message;
    message.mutable_checkpoint_ack()->set_job(42);
    message.mutable_checkpoint_ack()->set_step(step);
    message.mutable_checkpoint_ack()->set_committed(committed);
    message.mutable_checkpoint_ack()->set_refused(refused);
    if (refused) message.mutable_checkpoint_ack()->set_reason("stale attempt");
    return Command(message);
  }
  void Commit(int64_t step) {
    Say(CheckpointFoundInput{kKey, step, 0, 0});
    Say(UploadDoneInput{Ready(step)});
  }
};

TEST_F(CheckpointTest, WholeDirectoryCountsOnTheNodeOfRankZeroOnly) {
  Connect();
  Run(kKey);
  const Actions found = Say(CheckpointFoundInput{kKey, 10, 0, 0});
  ASSERT_EQ(Of<UploadAction>(found).size(), 1u);
  EXPECT_EQ(Of<UploadAction>(found)[0].parts, 1u);
  EXPECT_TRUE(Of<UploadAction>(Say(CheckpointFoundInput{kKey, 10, 0, 0})).empty());

  const AttemptKey other{43, 0};
  auto launch = Launch(other);
  launch.mutable_launch()->mutable_part()->set_first_rank(2);
  Command(launch);
  Say(LaunchRecordedInput{other});
  EXPECT_TRUE(Of<UploadAction>(Say(CheckpointFoundInput{other, 10, 0, 0})).empty());
}

TEST_F(CheckpointTest, WritersAllMakesOnePartPerNode) {
  Connect();
  auto launch = Launch(kKey);
  launch.mutable_launch()->mutable_part()->set_first_rank(2);
  launch.mutable_launch()->mutable_part()->set_group_rank(1);
  launch.mutable_launch()->set_group_world_size(3);
  launch.mutable_launch()->mutable_spec()->mutable_checkpoint()->set_writers(
      v1::CHECKPOINT_WRITERS_ALL);
  Command(launch);
  Say(LaunchRecordedInput{kKey});
  const auto uploads = Of<UploadAction>(Say(CheckpointFoundInput{kKey, 10, 0, 0}));
  ASSERT_EQ(uploads.size(), 1u);
  EXPECT_EQ(uploads[0].part, 1u);
  EXPECT_EQ(uploads[0].parts, 3u);
}

TEST_F(CheckpointTest, PartFileSaysItsNumberOnAnyNode) {
  Connect();
  Run(kKey);
  const auto uploads = Of<UploadAction>(Say(CheckpointFoundInput{kKey, 10, 1, 2}));
  ASSERT_EQ(uploads.size(), 1u);
  EXPECT_EQ(uploads[0].part, 1u);
  EXPECT_EQ(uploads[0].parts, 2u);
}

TEST_F(CheckpointTest, UploadedPartIsSaidAgainAtEachRegistrationUntilAcknowledged) {
  Connect();
  Run(kKey);
  Commit(10);
  EXPECT_EQ(RegisterMessage(state_, {now_ms_, 0}).checkpoint_parts_size(), 1);
  Ack(10, false);
  EXPECT_EQ(RegisterMessage(state_, {now_ms_, 0}).checkpoint_parts_size(), 0);
}

TEST_F(CheckpointTest, CommittedIsToldToTheTrainersOnce) {
  Connect();
  Run(kKey);
  Commit(10);
  EXPECT_EQ(Of<NotifyCommittedAction>(Ack(10, true)).size(), 1u);
  EXPECT_TRUE(Of<NotifyCommittedAction>(Ack(10, true)).empty());
}

TEST_F(CheckpointTest, OnlyTheNewestTwoCommittedStepsStayOnTheNode) {
  Connect();
  Run(kKey);
  for (int64_t step : {10, 20}) {
    Commit(step);
    EXPECT_TRUE(Of<DeleteStepAction>(Ack(step, true)).empty());
  }
  Commit(30);
  const auto deleted = Of<DeleteStepAction>(Ack(30, true));
  ASSERT_EQ(deleted.size(), 1u);
  EXPECT_EQ(deleted[0].step, 10);
}

TEST_F(CheckpointTest, EndedAttemptIsPendingUntilScanAndUploadsAreDone) {
  Connect();
  Run(kKey);
  EXPECT_TRUE(LastStatus(Say(AttemptEndedInput{kKey, "empty", "", {}})).checkpoints_pending());
  Say(CheckpointFoundInput{kKey, 10, 0, 0});
  EXPECT_TRUE(Statuses(Say(FinalScanDoneInput{kKey})).empty());
  const Actions done = Say(UploadDoneInput{Ready(10)});
  EXPECT_FALSE(LastStatus(done).checkpoints_pending());
  // The part is reported before the status, on an ordered stream.
  EXPECT_TRUE(Of<SendAction>(done)[0].message.has_checkpoint_part());
}

TEST_F(CheckpointTest, StalledUploadIsGivenUpAfterAMinuteWithALink) {
  Connect(600'000);
  Run(kKey);
  Say(AttemptEndedInput{kKey, "empty", "", {}});
  Say(CheckpointFoundInput{kKey, 10, 0, 0});
  Say(FinalScanDoneInput{kKey});
  now_ms_ += 30'000;
  Say(UploadProgressInput{kKey});
  now_ms_ += 59'999;
  EXPECT_TRUE(Statuses(Say(TickInput{})).empty());
  now_ms_ += 1;
  const auto status = LastStatus(Say(TickInput{}));
  EXPECT_FALSE(status.checkpoints_pending());
  EXPECT_NE(status.checkpoint_error().find("abandoned"), std::string::npos);
}

TEST_F(CheckpointTest, RefusedDirectoryIsReportedAndTheJobGoesOn) {
  Connect();
  Run(kKey);
  const Actions refused = Say(CheckpointRefusedInput{kKey, 10, "link.pt is a symbolic link"});
  EXPECT_EQ(LastStatus(refused).phase(), v1::ATTEMPT_PHASE_RUNNING);
  EXPECT_EQ(LastStatus(refused).checkpoint_error(),
            "checkpoint step-10: link.pt is a symbolic link");
  EXPECT_EQ(Of<NotifyErrorAction>(refused).size(), 1u);
}

TEST_F(CheckpointTest, RefusalByTheCoordinatorIsNotRepeated) {
  Connect();
  Run(kKey);
  Commit(10);
  EXPECT_EQ(LastStatus(Ack(10, false, true)).checkpoint_error(),
            "checkpoint step-10: stale attempt");
  EXPECT_EQ(RegisterMessage(state_, {now_ms_, 0}).checkpoint_parts_size(), 0);
}

}  // namespace
}  // namespace muster::worker
