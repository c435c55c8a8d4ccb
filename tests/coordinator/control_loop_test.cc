// What the control loop answers, and to whom, while its journal cannot commit.
#include "coordinator/control_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "coordinator/core/decide.h"

namespace muster::coordinator {
namespace {

// Commits nothing until told to.
class SlowJournal final : public Journal {
 public:
  uint64_t Epoch() const override { return 1; }
  std::string ClusterId() const override { return "cluster"; }
  absl::Status Replay(const ReplayCallbacks&) override { return absl::OkStatus(); }
  void Start(JournalCallbacks) override {}
  void Append(JournalRecord record) override { appended_ = record.turn; }
  size_t PendingBytes() const override { return 0; }
  absl::Status Stop() override { return absl::OkStatus(); }
  void UseLastReserve() override { ++asked_; }
  uint64_t Appended() const { return appended_; }
  int Asked() const { return asked_; }

 private:
  std::atomic<int> asked_ = 0;
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

}  // namespace
}  // namespace muster::coordinator
