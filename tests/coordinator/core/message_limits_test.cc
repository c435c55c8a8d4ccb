// Everything that grows with ranks, files or texts, at its limits: each message still fits, and
// nothing becomes disproportionately slow.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/base/version.h"
#include "common/hash/sha256.h"
#include "common/kernel/shim_protocol.h"
#include "common/problem.h"
#include "coordinator/core/outcome/checkpoint_rules.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/turn.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

using common::kAnswerBytesMax;
using common::kControlMessageBytesMax;

class MessageLimits : public ::testing::Test {
 protected:
  MessageLimits() {
    for (const char* node : {"a", "b"}) {
      WorkerRegisteredInput input{++session_, {}};
      v1::NodeFacts& facts = *input.message.mutable_facts();
      facts.set_name(node);
      facts.set_protocol(common::kProtocol);
      facts.set_incarnation(1);
      facts.add_devices()->set_kind("cpu");
      Take(input);
      v1::WorkerMessage cleared;
      cleared.mutable_cleared();
      Say(node, std::move(cleared));
    }
    SubmitInput submit;
    v1::JobSpec& spec = *submit.request.mutable_spec();
    spec.add_command("train");
    spec.set_workdir("/");
    spec.set_restarts(3);
    spec.mutable_shape()->set_processes(2);
    spec.mutable_shape()->mutable_device()->set_kind("cpu");
    (*spec.mutable_env())["LARGE"] = std::string(250 * 1024, 'x');
    Take(submit);
  }

  Turn Take(Input input) {
    now_ms_ += 1'000;
    return TakeTurn(state_, {&input, 1}, {now_ms_, now_ms_});
  }
  Turn Say(const std::string& node, v1::WorkerMessage message) {
    return Take(WorkerSaidInput{node == "a" ? 1u : 2u, node, std::move(message)});
  }
  Turn SayPart(uint32_t part, int files, size_t name_bytes) {
    v1::WorkerMessage message;
    v1::CheckpointPartReady& ready = *message.mutable_checkpoint_part();
    ready.set_job(1);
    ready.set_step(7);
    ready.set_part(part);
    ready.set_parts(2);
    const std::string sha256 = common::Sha256Hex("bytes");
    for (int i = 0; i < files; ++i) {
      v1::CheckpointFile& file = *ready.add_files();
      file.set_path(absl::StrCat(std::string(name_bytes, 'n'), part, "-", i));
      file.set_sha256(sha256);
    }
    return Say(part == 0 ? "a" : "b", std::move(message));
  }
  static const v1::CheckpointAck* AckIn(const Turn& turn) {
    for (const Command& command : turn.commands) {
      if (command.message.has_checkpoint_ack()) return &command.message.checkpoint_ack();
    }
    return nullptr;
  }

  ClusterState state_;
  uint64_t session_ = 0;
  int64_t now_ms_ = 0;
};

TEST_F(MessageLimits, TwoPartsOfTwentyThousandFilesAreCommittedInEventsOfBoundedSize) {
  for (const uint32_t part : {0u, 1u}) {
    const Turn turn = SayPart(part, common::kPartFilesMax, 200);
    EXPECT_GT(turn.events.size(), 10u);
    for (const v1::Event& event : turn.events) {
      EXPECT_LE(event.ByteSizeLong(), common::kJournalRecordBytesMax);
    }
  }
  const v1::JobRecord& job = state_.jobs.Edit(1);
  ASSERT_EQ(job.checkpoints_size(), 1);
  EXPECT_EQ(job.checkpoints(0).state(), v1::CHECKPOINT_STATE_COMMITTED);
  EXPECT_EQ(job.checkpoints(0).file_count(), 2 * common::kPartFilesMax);
  // The record that every watcher gets a copy of does not contain them.
  EXPECT_LE(job.ByteSizeLong(), size_t{300} * 1024);
}

TEST_F(MessageLimits, ALaunchNamesTheCheckpointThatItResumesFrom) {
  SayPart(0, common::kPartFilesMax, 200);
  SayPart(1, common::kPartFilesMax, 200);
  v1::WorkerMessage failed;
  v1::AttemptStatus& status = *failed.mutable_attempt_status();
  status.set_job(1);
  status.set_phase(v1::ATTEMPT_PHASE_ENDED);
  status.add_exits()->set_exit_code(7);
  Say("a", failed);
  status.mutable_exits(0)->set_rank(1);
  Say("b", failed);
  v1::WorkerMessage held;
  held.mutable_attempt_status()->set_job(1);
  held.mutable_attempt_status()->set_attempt(1);
  held.mutable_attempt_status()->set_master_port(20'000);
  held.mutable_attempt_status()->set_ready(true);
  Say("a", held);
  const Turn turn = Say("b", held);
  int launches = 0;
  for (const Command& command : turn.commands) {
    if (!command.message.has_launch()) continue;
    ++launches;
    EXPECT_EQ(command.message.launch().resume_file_count(), 2 * common::kPartFilesMax);
    EXPECT_LE(command.message.ByteSizeLong(), kControlMessageBytesMax);
  }
  EXPECT_EQ(launches, 2);
}

TEST_F(MessageLimits, APartBeyondTheLimitsIsRefusedAloneWithTheFix) {
  const Turn names = SayPart(0, common::kPartFilesMax, 900);
  ASSERT_NE(AckIn(names), nullptr);
  EXPECT_TRUE(AckIn(names)->refused());
  EXPECT_NE(AckIn(names)->reason().find("fix: use shorter names or fewer files"),
            std::string::npos);
  const Turn files = SayPart(0, common::kPartFilesMax + 1, 1);
  EXPECT_TRUE(AckIn(files)->refused());
  const Turn good = SayPart(0, 3, 10);
  EXPECT_FALSE(AckIn(good)->refused());
}

TEST_F(MessageLimits, FilesThatCannotBeNamesAreRefused) {
  for (const char* path : {"", "/etc/passwd", "a/../b", "a//b", ".", "a\nb"}) {
    v1::CheckpointPartReady ready;
    ready.set_job(1);
    ready.set_parts(1);
    ready.add_files()->set_path(path);
    ready.mutable_files(0)->set_sha256(common::Sha256Hex("x"));
    EXPECT_TRUE(absl::IsInvalidArgument(JudgePart(state_, {"a", 1}, ready))) << path;
    ready.mutable_files(0)->set_path("a/b");
    EXPECT_TRUE(JudgePart(state_, {"a", 1}, ready).ok());
    ready.mutable_files(0)->set_sha256("../../x");
    EXPECT_TRUE(absl::IsInvalidArgument(JudgePart(state_, {"a", 1}, ready)));
  }
}

TEST_F(MessageLimits, APartIsTakenOnlyFromTheIncarnationThatTheAttemptWasAssignedTo) {
  v1::CheckpointPartReady ready;
  ready.set_job(1);
  ready.set_parts(1);
  EXPECT_TRUE(JudgePart(state_, {"a", 1}, ready).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(JudgePart(state_, {"a", 2}, ready)));
  EXPECT_TRUE(absl::IsPermissionDenied(JudgePart(state_, {"c", 1}, ready)));
}

TEST_F(MessageLimits, LaterFailuresOfAnAttemptTellTheirBeginningOnly) {
  v1::JobRecord& job = state_.jobs.Edit(1);
  job.mutable_attempts(0)->mutable_parts(0)->set_local_world_size(1'000);
  v1::WorkerMessage message;
  v1::AttemptStatus& status = *message.mutable_attempt_status();
  status.set_job(1);
  for (uint32_t rank = 0; rank < 1'000; ++rank) {
    v1::RankExit& exit = *status.add_exits();
    exit.set_rank(rank);
    exit.set_exit_code(1);
    exit.set_error_message(std::string(100'000, 'e'));
    exit.set_last_lines(std::string(100'000, 'l'));
  }
  Say("a", std::move(message));
  const v1::NodePart& part = job.attempts(0).parts(0);
  ASSERT_EQ(part.exits_size(), 1'000);
  EXPECT_EQ(part.exits(0).error_message().size(), common::kErrorMessageBytesMax);
  EXPECT_EQ(part.exits(999).error_message().size(), common::kFailureShortBytes);
  EXPECT_LE(job.ByteSizeLong(), size_t{2} << 20);
}

// A cancel that its node may not have got is sent again with each further one.
TEST_F(MessageLimits, AFurtherCancelAsksTheNodesAgain) {
  const auto cancel = [&] {
    const Turn turn = Take(CancelInput{
        .jobs = {1}, .has_grace = true, .grace_ms = 0, .reason = std::string(5'000'000, 'r')});
    int stops = 0;
    for (const Command& command : turn.commands) {
      if (!command.message.has_stop()) continue;
      ++stops;
      EXPECT_LE(command.message.ByteSizeLong(), kControlMessageBytesMax);
    }
    return stops;
  };
  EXPECT_EQ(cancel(), 2);
  EXPECT_EQ(cancel(), 2) << "one for each node";
}

TEST_F(MessageLimits, AnOwnerWhoseJobsAreLargeReachesTheirOwnShare) {
  state_.settings.owner_live_bytes_max = 3 << 20;
  const auto submit = [&](const std::string& owner) {
    SubmitInput input{.caller = {.principal = owner}};
    *input.request.mutable_spec() = state_.jobs.at(1).spec();
    const Turn turn = Take(input);
    return turn.replies.at(0).status;
  };
  int taken = 0;
  while (taken < 100 && submit("user:large").ok()) ++taken;
  EXPECT_EQ(taken, 12) << "of 250 KiB each";
  const absl::Status refused = submit("user:large");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("the limit is 3.1 MB"), std::string::npos) << refused;
  EXPECT_TRUE(submit("user:other").ok());
  // What ends gives its share back.
  for (const auto& [id, held] : std::map(state_.holdings.jobs.begin(), state_.holdings.jobs.end()))
    Take(CancelInput{.jobs = {id}});
  EXPECT_TRUE(submit("user:large").ok());
}

TEST_F(MessageLimits, WhatAJobHoldsIsCountedToTheByteAndGivenBack) {
  SayPart(0, 1'000, 200);
  SayPart(1, 1'000, 200);
  const uint64_t with_files = state_.holdings.jobs.at(1).bytes;
  EXPECT_GT(with_files, uint64_t{250 * 1024} + 2 * 1'000 * 200);
  ClusterState restored;
  RestoreSnapshot(restored, MakeSnapshot(state_), {1, 1});
  const uint64_t files = with_files - state_.holdings.jobs.at(1).record_bytes;
  EXPECT_EQ(restored.holdings.bytes - restored.holdings.jobs.at(1).record_bytes, files);
  Take(RemoveCheckpointInput{{}, 1, 7, 0});
  EXPECT_EQ(state_.holdings.bytes, state_.holdings.jobs.at(1).record_bytes);
  v1::WorkerMessage over;
  over.mutable_attempt_status()->set_job(1);
  over.mutable_attempt_status()->set_phase(v1::ATTEMPT_PHASE_ENDED);
  over.mutable_attempt_status()->add_exits();
  Say("a", over);
  over.mutable_attempt_status()->mutable_exits(0)->set_rank(1);
  Say("b", over);
  EXPECT_TRUE(state_.jobs.empty());
  EXPECT_EQ(state_.holdings.bytes, 0u);
  EXPECT_TRUE(state_.holdings.owners.empty());
}

TEST_F(MessageLimits, AJobWhoseFileListsAreFullKeepsWhatItHas) {
  state_.settings.job_live_bytes_max = 1 << 20;
  SayPart(0, 1'000, 200);
  const Turn more = SayPart(1, 10'000, 200);
  ASSERT_NE(AckIn(more), nullptr);
  EXPECT_TRUE(AckIn(more)->refused());
  EXPECT_NE(AckIn(more)->reason().find("keep fewer checkpoints"), std::string::npos);
}

// A demand that the nodes cannot hold is looked at once, until they change.
TEST_F(MessageLimits, JobsThatStepAsideAreNotLookedAtAgainUntilTheNodesChange) {
  const auto submit = [&](uint32_t ranks) {
    SubmitInput input;
    v1::JobSpec& spec = *input.request.mutable_spec();
    spec.add_command("train");
    spec.set_workdir("/");
    spec.mutable_shape()->set_processes(ranks);
    spec.mutable_shape()->mutable_device()->set_kind("cpu");
    input.request.set_queue_anyway(true);
    Take(input);
  };
  for (uint32_t ranks = 3; ranks < 53; ++ranks) submit(ranks);
  EXPECT_EQ(state_.asides.jobs.size(), 50u);
  EXPECT_EQ(state_.asides.by_demand.size(), 50u);
  WorkerRegisteredInput third{++session_, {}};
  v1::NodeFacts& facts = *third.message.mutable_facts();
  facts.set_name("c");
  facts.set_protocol(common::kProtocol);
  for (uint32_t i = 0; i < 3; ++i) {
    facts.add_devices()->set_kind("cpu");
    facts.mutable_devices(i)->set_index(i);
  }
  Take(third);
  Take(WorkerSaidInput{session_, "c", [] {
                         v1::WorkerMessage message;
                         message.mutable_cleared();
                         return message;
                       }()});
  EXPECT_EQ(state_.jobs.at(2).state(), v1::JOB_STATE_STARTING) << "three ranks fit now";
}

TEST(RecordForPeople, FitsIntoAMessageWithAHundredThousandRanksInTwentyAttempts) {
  v1::JobRecord job;
  for (int number = 0; number < common::kAttemptsKept; ++number) {
    v1::Attempt& attempt = *job.add_attempts();
    attempt.mutable_culprit()->set_last_lines(std::string(common::kLastLinesBytesMax, 'l'));
    for (int node = 0; node < 5'000; ++node) {
      v1::NodePart& part = *attempt.add_parts();
      part.set_node(absl::StrCat("node-with-a-long-name-", node));
      for (uint32_t i = 0; i < 20; ++i) part.add_exits()->set_last_lines("x");
    }
  }
  const v1::JobRecord shown = RecordForPeople(job);
  EXPECT_LE(shown.ByteSizeLong(), kControlMessageBytesMax);
  ASSERT_EQ(shown.attempts_size(), common::kAttemptsKept);
  const v1::Attempt& oldest = shown.attempts(0);
  EXPECT_EQ(oldest.exits_left_out(), 100'000u);
  EXPECT_EQ(oldest.parts_left_out(), 4'000u);
  EXPECT_EQ(oldest.culprit().last_lines().size(), common::kLastLinesBytesMax);
}

v1::NodeFacts LargeFacts(const std::string& name) {
  v1::NodeFacts facts;
  facts.set_name(name);
  facts.set_protocol(common::kProtocol);
  facts.set_incarnation(1);
  for (int i = 0; i < 30; ++i) facts.mutable_containers()->add_lacks(std::string(1'000, 'x'));
  return facts;
}

TEST_F(MessageLimits, WhatAllNodesReportOfThemselvesIsBoundedAndWhoIsKnownStays) {
  state_.settings.node_facts_bytes_max = 40'000;
  const auto join = [&](const std::string& name) {
    WorkerRegisteredInput input{++session_, {}};
    *input.message.mutable_facts() = LargeFacts(name);
    return Take(input).replies.at(0).status;
  };
  EXPECT_TRUE(join("large").ok());
  const absl::Status refused = join("second");
  EXPECT_EQ(common::CodeOf(refused), "JC1405");
  EXPECT_NE(refused.message().find("the other 3 nodes"), refused.message().npos) << refused;
  EXPECT_TRUE(join("large").ok()) << "it is counted once";

  ClusterState restarted;
  restarted.settings = state_.settings;
  ASSERT_TRUE(ReplaySnapshot(restarted, MakeSnapshot(state_), {1, 1}).ok());
  EXPECT_EQ(restarted.node_facts_bytes, state_.node_facts_bytes);

  Take(WorkerGoneInput{.session = session_, .node = "large"});
  Take(RemoveNodeInput{.node = "large"});
  ASSERT_FALSE(state_.nodes.contains("large"));
  EXPECT_TRUE(join("second").ok());
}

}  // namespace
}  // namespace muster::coordinator
