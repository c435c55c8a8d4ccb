// Builders for tests of the worker's core: a state, a clock that moves only when told, and queries
// over actions.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/core/decide.h"
#include "worker/core/invariants.h"

namespace muster::worker {

// The attempt that most tests are about.
inline constexpr AttemptKey kKey{42, 0};

class CoreTest : public ::testing::Test {
 protected:
  CoreTest() {
    state_.facts.set_name("node-a");
    state_.cleared = true;
  }

  Actions Say(const Input& input) {
    Actions actions = Decide(state_, input, {now_ms_, WallMs()});
    EXPECT_EQ(BrokenInvariant(state_), "") << "not true";
    return actions;
  }
  int64_t WallMs() const { return now_ms_ + wall_offset_ms_; }
  Actions Command(v1::CoordinatorMessage message, uint64_t epoch = 5) {
    message.set_epoch(epoch);
    return Say(CommandInput{message});
  }
  // A registered link.
  void Connect(uint32_t heartbeat_ms = 5'000) {
    Say(LinkUpInput{});
    v1::CoordinatorMessage message;
    message.mutable_registered()->set_heartbeat_ms(heartbeat_ms);
    Command(message);
  }
  static v1::CoordinatorMessage Launch(AttemptKey key) {
    v1::CoordinatorMessage message;
    auto* launch = message.mutable_launch();
    launch->set_job(key.job);
    launch->set_attempt(key.attempt);
    launch->set_world_size(2);
    launch->set_resume_step(-1);
    launch->mutable_part()->set_local_world_size(2);
    return message;
  }
  static v1::CoordinatorMessage StopOf(AttemptKey key, uint32_t grace_ms = 1'000) {
    v1::CoordinatorMessage message;
    message.mutable_stop()->set_job(key.job);
    message.mutable_stop()->set_attempt(key.attempt);
    message.mutable_stop()->set_grace_ms(grace_ms);
    message.mutable_stop()->set_cause(v1::STOP_CAUSE_CANCELLED);
    return message;
  }
  static v1::CoordinatorMessage ForgetOf(AttemptKey key) {
    v1::CoordinatorMessage message;
    message.mutable_forget()->set_job(key.job);
    message.mutable_forget()->set_attempt(key.attempt);
    return message;
  }
  // Launched, spawned, all ranks started.
  void Run(AttemptKey key) {
    Command(Launch(key));
    Say(LaunchRecordedInput{key});
    Say(RanksStartedInput{key, 2});
  }
  void FinishOutput(AttemptKey key) {
    Say(FinalScanDoneInput{key});
    Say(OutputDrainedInput{key});
  }

  template <typename A>
  static std::vector<A> Of(const Actions& actions) {
    std::vector<A> found;
    for (const Action& action : actions) {
      if (const A* wanted = std::get_if<A>(&action)) found.push_back(*wanted);
    }
    return found;
  }
  static std::vector<v1::AttemptStatus> Statuses(const Actions& actions) {
    std::vector<v1::AttemptStatus> found;
    for (const SendAction& send : Of<SendAction>(actions)) {
      if (send.message.has_attempt_status()) found.push_back(send.message.attempt_status());
    }
    return found;
  }
  static v1::AttemptStatus LastStatus(const Actions& actions) {
    const auto statuses = Statuses(actions);
    EXPECT_FALSE(statuses.empty()) << "no status was reported";
    return statuses.empty() ? v1::AttemptStatus() : statuses.back();
  }

  WorkerState state_;
  int64_t now_ms_ = 1'000'000;
  int64_t wall_offset_ms_ = 1'789'999'000'000;
};

}  // namespace muster::worker
