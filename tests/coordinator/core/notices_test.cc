// Findings that a job's `notify` tells: each once per attempt, and never of a job that did not ask;
// files of its streams that fail.
#include "coordinator/core/decide/notices.h"

#include <gtest/gtest.h>

#include "coordinator/core/state/apply.h"
#include "coordinator/core/turn.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

constexpr uint64_t kJob = 7;

v1::Finding Found(const std::string& code, uint32_t attempt) {
  v1::Finding finding;
  finding.set_code(code);
  finding.set_attempt(attempt);
  finding.set_sentence("1 of 2 devices\nis busy");
  for (uint32_t rank = 0; rank < 1'000; ++rank) finding.add_ranks(rank);
  finding.add_evidence()->set_name("busy devices");
  return finding;
}

class NoticesTest : public ::testing::Test {
 protected:
  NoticesTest() {
    v1::Event submitted;
    submitted.set_job(kJob);
    v1::JobRecord& record = *submitted.mutable_job_submitted()->mutable_record();
    record.set_id(kJob);
    record.set_state(v1::JOB_STATE_QUEUED);
    record.set_held(true);
    record.mutable_spec()->add_notify()->set_webhook("https://end.example/");
    v1::Notify& notify = *record.mutable_spec()->add_notify();
    notify.add_on(v1::NOTIFY_ON_FAILURE);
    notify.add_on(v1::NOTIFY_ON_FINDING);
    Apply(state_, submitted, {});
  }
  std::vector<v1::Event> Take(Input input) {
    const Input inputs[] = {std::move(input)};
    return TakeTurn(state_, inputs, {}).events;
  }
  const v1::JobRecord& Job() const { return state_.jobs.at(kJob); }

  ClusterState state_;
};

TEST_F(NoticesTest, EachCodeIsAFactOncePerAttempt) {
  const auto first = Take(FindingInput{kJob, Found("idle-devices", 1)});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(DescribeEvent(first[0]), "attempt 1: finding idle-devices: 1 of 2 devices\\x0ais busy");
  EXPECT_TRUE(first[0].skippable());
  ASSERT_EQ(first[0].finding_noticed().entries_size(), 1);
  EXPECT_EQ(first[0].finding_noticed().entries(0), 1u) << "the entry that wants findings";
  EXPECT_TRUE(Take(FindingInput{kJob, Found("idle-devices", 1)}).empty());
  EXPECT_EQ(Take(FindingInput{kJob, Found("idle-devices", 2)}).size(), 1u);
  EXPECT_EQ(Take(FindingInput{kJob, Found("slow-rank", 2)}).size(), 1u);
}

TEST_F(NoticesTest, AFileThatFailsIsAnEventOfALiveJobAlone) {
  v1::ErrorDetail error;
  error.set_what("the output of job 7 attempt 0 rank 1 waits up to 1 s");
  error.set_why("cannot write");
  const auto events = Take(StreamFailedInput{.job = kJob, .error = error});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].skippable());
  EXPECT_EQ(DescribeEvent(events[0]),
            "the output of job 7 attempt 0 rank 1 waits up to 1 s: cannot write");
  EXPECT_TRUE(Take(StreamFailedInput{.job = kJob + 1, .error = error}).empty());
}

TEST_F(NoticesTest, ARestartDoesNotRepeatThem) {
  Take(FindingInput{kJob, Found("idle-devices", 1)});
  ClusterState restarted;
  RestoreSnapshot(restarted, MakeSnapshot(state_), {});
  state_ = std::move(restarted);
  EXPECT_TRUE(Take(FindingInput{kJob, Found("idle-devices", 1)}).empty());
}

TEST_F(NoticesTest, WhatTheRecordKeepsIsBounded) {
  for (int i = 0; i < 2 * kNoticedMax; ++i)
    Take(FindingInput{kJob, Found("idle-devices", static_cast<uint32_t>(i))});
  EXPECT_EQ(Job().noticed_size(), kNoticedMax);
  EXPECT_LE(Job().noticed(0).ranks_size(), 16);
  EXPECT_TRUE(Job().noticed(0).evidence().empty());
}

TEST_F(NoticesTest, NothingIsNoticedOfJobsThatDoNotAskOrAreOver) {
  EXPECT_TRUE(Take(FindingInput{kJob + 1, Found("idle-devices", 1)}).empty());
  state_.jobs.Edit(kJob).mutable_spec()->mutable_notify(1)->clear_on();
  EXPECT_TRUE(Take(FindingInput{kJob, Found("idle-devices", 1)}).empty());
}

TEST_F(NoticesTest, HowADeliveryEndedIsAnEventOfAJobThatIsOver) {
  NotifiedInput input{.job = 99, .attempt = 0, .notified = {}};
  input.notified.set_entry(1);
  input.notified.set_outcome("the command on node1 exited with 0");
  input.notified.set_output("sent" + std::string(10'000, '!'));
  const Input inputs[] = {input};
  const Turn turn = TakeTurn(state_, inputs, {});
  ASSERT_EQ(turn.events.size(), 1u);
  EXPECT_EQ(turn.events[0].job(), 99u);
  EXPECT_TRUE(turn.changed_jobs.empty()) << "a watcher would take it for removed";
  EXPECT_EQ(turn.events[0].notified().output().size(), 2'048u);
  EXPECT_EQ(DescribeEvent(turn.events[0])
                .find("notify[1] of the end: the command on node1 exited "
                      "with 0; it printed: sent!"),
            0u);
}

}  // namespace
}  // namespace muster::coordinator
