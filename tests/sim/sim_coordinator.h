// The real coordinator core over a simulated journal: what is not yet durable is lost when it is
// killed, and no effect of a turn is visible before its events are durable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/state/apply.h"
#include "coordinator/core/turn.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/witness.h"

namespace muster::sim {

class SimCoordinator {
 public:
  using ReplySink = std::function<void(const coordinator::Reply&)>;
  struct Callbacks {
    std::function<void(const coordinator::Command&, uint64_t epoch)> deliver;
    std::function<void()> killed;
    std::function<bool(const std::string& sha256)> has_blob;
  };

  SimCoordinator(EventQueue& queue, Witness& witness, Callbacks callbacks)
      : queue_(queue), witness_(witness), callbacks_(std::move(callbacks)) {}

  bool alive() const { return state_ != nullptr; }
  const coordinator::ClusterState& state() const { return *state_; }
  uint64_t epoch() const { return epoch_; }
  // Finished jobs, as a client would list them.
  const std::map<uint64_t, v1::JobRecord>& finished() const { return finished_; }
  uint64_t events() const { return durable_.size(); }

  void Start();
  void Kill();
  void Take(coordinator::Input input, ReplySink reply = nullptr);

  common::Now Now() const;

 private:
  void Release(coordinator::Turn turn, std::vector<ReplySink> replies);
  void ArmTimer();
  void CheckCommitted(const v1::Event& event);
  void CheckFinal(const v1::Event& event);
  // What of it has ended.
  std::vector<v1::JobRecord> Replay(coordinator::ClusterState& state, size_t first) const;
  // A turn is in the journal; then in the index, which follows it, and its effects go out.
  void Commit(const coordinator::Turn& turn);
  void Follow(const coordinator::Turn& turn, std::vector<ReplySink>& replies);
  // After a kill in between: the index gets what only the journal has.
  void CatchUp(const std::vector<v1::JobRecord>& replayed);

  EventQueue& queue_;
  Witness& witness_;
  const Callbacks callbacks_;
  coordinator::Settings settings_;
  std::unique_ptr<coordinator::ClusterState> state_;
  uint64_t life_ = 0;            // closures of an older life do nothing
  uint64_t epoch_ = 0;           // durable
  int64_t last_commit_ms_ = 0;   // turns are committed in order,
  int64_t last_release_ms_ = 0;  // and released in order
  int64_t armed_ms_ = -1;
  std::vector<v1::Event> durable_;  // the journal
  v1::Snapshot snapshot_;           // of the state after the first `snapshot_size_` events
  size_t snapshot_size_ = 0;
  std::map<uint64_t, v1::JobRecord> finished_;               // the index of finished jobs, durable
  size_t indexed_ = 0;                                       // of `durable_`, what the index has
  std::set<uint64_t> ended_;                                 // J11: final is final
  std::map<uint64_t, std::pair<uint32_t, int64_t>> latest_;  // J9
};

}  // namespace muster::sim
