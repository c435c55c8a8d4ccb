// Each sentence of invariants.cc is false of some state.
#include <functional>
#include <set>
#include <vector>

#include "tests/worker/core_fixture.h"

namespace muster::worker {
namespace {

class InvariantsTest : public CoreTest {};

TEST_F(InvariantsTest, EveryBreakIsFoundAndNamed) {
  Connect();
  Run(kKey);
  ASSERT_EQ(BrokenInvariant(state_), "");
  const auto running = [](WorkerState& state) -> Attempt& { return state.attempts.at(kKey); };
  const std::vector<std::function<void(WorkerState&)>> breaks = {
      [&](auto& state) { running(state).stage = Stage::kNew; },
      [&](auto& state) { running(state).status.set_attempt(7); },
      [&](auto& state) { running(state).launch.set_attempt(7); },
      [&](auto& state) { running(state).launch.Clear(); },
      [&](auto& state) { running(state).stage = Stage::kPreparing; },
      [&](auto& state) { running(state).spawned = false; },
      [&](auto& state) { running(state).status.set_ranks_started(0); },
      [&](auto& state) { running(state).spawn_waits = true; },
      [&](auto& state) { running(state).kill_mono_ms = 1; },
      [&](auto& state) { running(state).failed_ranks = 1; },
      [&](auto& state) { running(state).final_scan_done = true; },
      [&](auto& state) { state.forgotten[kKey.job] = kKey.attempt; },
      [&](auto& state) {
        running(state).parts[{3, 0}].state = PartState::kReady;
      },
      [&](auto& state) {
        Attempt& other = state.attempts[{kKey.job, 1}] = running(state);
        other.status.set_attempt(1);
        other.launch.set_attempt(1);
      },
      [&](auto& state) { state.clearing = true; },
      [&](auto& state) { state.deferred.emplace_back(); },
      [&](auto& state) { state.contact.heartbeats_sent_mono_ms[9'999] = 1; },
      [&](auto& state) { state.contact.heartbeat_ms = 0; },
  };
  std::set<std::string> named;
  for (size_t i = 0; i < breaks.size(); ++i) {
    WorkerState broken = state_;
    breaks[i](broken);
    const std::string sentence = BrokenInvariant(broken);
    EXPECT_NE(sentence, "") << i;
    EXPECT_TRUE(named.insert(sentence).second) << i << ": " << sentence;
  }
}

}  // namespace
}  // namespace muster::worker
