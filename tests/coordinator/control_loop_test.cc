// What the control loop answers, and to whom, while its journal cannot commit.
#include "coordinator/loop/control_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "common/problem.h"
#include "coordinator/core/decide/decide.h"

namespace muster::coordinator {
namespace {

// Commits nothing until told to.
class SlowJournal final : public Journal {
 public:
  uint64_t Epoch() const override { return 1; }
  std::string ClusterId() const override { return "cluster"; }
  absl::Status Replay(const ReplayCallbacks& sink) override {
    return found.format() == 0 ? absl::OkStatus() : sink.snapshot(found);
  }
  void Start(JournalCallbacks) override {}
  void Append(JournalRecord record) override {
    if (record.events != nullptr) most_events_ = std::max(most_events_, record.events->size());
    if (record.facts != nullptr) finished_ += record.facts->finished.size();
    appended_ = record.turn;
  }
  size_t PendingBytes() const override { return 0; }
  absl::Status Stop() override { return absl::OkStatus(); }
  void UseLastReserve() override { ++asked_; }
  uint64_t Appended() const { return appended_; }
  int Asked() const { return asked_; }
  size_t Finished() const { return finished_; }
  size_t MostEvents() const { return most_events_; }

  v1::Snapshot found;  // by Replay

 private:
  std::atomic<int> asked_ = 0;
  std::atomic<size_t> finished_ = 0;
  size_t most_events_ = 0;  // of one turn; read after a look at finished_
  std::atomic<uint64_t> appended_ = 0;
};

class ControlLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(loop_.Recover().ok());
    loop_.Start({});
  }
  void TearDown() override {
    loop_.OnDurable(UINT64_MAX);
    loop_.Stop();
  }

  // Leaves a turn waiting for the disk.
  void SubmitOne() {
    SubmitInput submit;
    submit.request.mutable_spec()->add_command("true");
    submit.request.mutable_spec()->set_workdir("/");
    submit.request.mutable_spec()->mutable_shape()->set_processes(1);
    submit.request.set_queue_anyway(true);
    const uint64_t before = journal_.Appended();
    ASSERT_TRUE(loop_.Submit(Input(std::move(submit)), [](const Reply&) {}).ok());
    while (journal_.Appended() == before) std::this_thread::yield();
  }

  std::future<absl::Status> Ask() {
    auto said = std::make_shared<std::promise<absl::Status>>();
    loop_.Ask([said](const LoopView&) { return [said] { said->set_value(absl::OkStatus()); }; },
              [said](const absl::Status& why) { said->set_value(why); });
    return said->get_future();
  }

  SlowJournal journal_;
  common::SystemClock clock_;
  ControlLoop loop_{journal_, clock_, Settings{}};
};

const absl::Status kFull = absl::ResourceExhaustedError("the disk is full");

TEST_F(ControlLoopTest, AQuestionThatWaitsAlreadyWhenTheDiskIsFullIsToldSo) {
  SubmitOne();
  std::future<absl::Status> early = Ask();
  loop_.OnStuck(kFull);
  while (journal_.Asked() == 0) std::this_thread::yield();
  loop_.OnStuck(kFull);
  EXPECT_EQ(early.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
      << "the last reserve may still help";
  loop_.OnStuck(kFull);
  EXPECT_EQ(early.get(), kFull);
  EXPECT_EQ(journal_.Asked(), 1);
  EXPECT_EQ(Ask().get(), kFull) << "and those that come later";
  loop_.OnStuck(absl::OkStatus());
  std::future<absl::Status> waits = Ask();
  loop_.OnDurable(UINT64_MAX);
  EXPECT_EQ(waits.get(), absl::OkStatus());
}

TEST_F(ControlLoopTest, WithAFullDiskAQuestionThatNeedsNothingOfItIsAnswered) {
  loop_.OnDurable(UINT64_MAX);
  loop_.OnStuck(kFull);
  EXPECT_EQ(Ask().get(), absl::OkStatus());
}

TEST_F(ControlLoopTest, WhoAsksForThousandsOfChangesHasAShareAndOneTurnForEachOfAnother) {
  std::promise<void> begin;
  std::atomic<bool> holds = false;
  loop_.Ask([&](const LoopView&) -> std::function<void()> {
    holds = true;
    begin.get_future().wait();
    return nullptr;
  });
  while (!holds) std::this_thread::yield();
  std::vector<std::string> order;  // the loop's thread writes it
  const auto submit = [&](const std::string& who) {
    ReleaseInput input;
    input.caller.principal = who;
    return loop_.Submit(std::move(input), [&, who](const Reply&) { order.push_back(who); });
  };
  const size_t share = ControlLoop::kQueuedRequests.of_one;
  for (size_t i = 0; i < share; ++i) ASSERT_TRUE(submit("user:greedy").ok());
  const absl::Status refused = submit("user:greedy");
  EXPECT_EQ(common::CodeOf(refused), "JC1308");
  EXPECT_NE(common::ProblemOf(refused).what.find("user:greedy are queued, which is its share"),
            std::string::npos);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(submit("user:other").ok());
  begin.set_value();
  loop_.OnDurable(UINT64_MAX);
  loop_.Stop();
  ASSERT_EQ(order.size(), share + 3);
  const auto last = std::find(order.rbegin(), order.rend(), "user:other").base() - order.begin();
  EXPECT_LE(last, 6);
}

// What one turn does not finish, the next ones do, without anything else that happens.
TEST(ControlLoop, WhatALastRunLeftBehindIsSettledOverSeveralTurns) {
  SlowJournal journal;
  journal.found.set_format(1);
  v1::JobRecord& job = *journal.found.add_jobs();
  job.set_id(1);
  job.set_name("red-fox-1");
  job.set_state(v1::JOB_STATE_RUNNING);
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_ended_ms(1);
  attempt.set_cause(v1::STOP_CAUSE_COMPLETED);
  attempt.add_parts()->set_ended(true);
  for (int step = 0; step < 1'100; ++step) {
    v1::Checkpoint& half = *job.add_checkpoints();
    half.set_step(step);
    half.set_parts(2);
    half.set_state(v1::CHECKPOINT_STATE_UPLOADING);
  }
  common::SystemClock clock;
  ControlLoop loop(journal, clock, Settings{});
  ASSERT_TRUE(loop.Recover().ok());
  EXPECT_EQ(journal.Finished(), 0u);
  loop.Start({});
  while (journal.Finished() == 0) std::this_thread::yield();
  EXPECT_LE(journal.MostEvents(), 300u);
  loop.OnDurable(UINT64_MAX);
  loop.Stop();
}

}  // namespace
}  // namespace muster::coordinator
