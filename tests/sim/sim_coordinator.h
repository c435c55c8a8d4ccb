// The real coordinator core over a simulated journal: what is not yet durable is lost when it is
// killed, and no effect of a turn is visible before its events are durable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/state/apply.h"
#include "coordinator/core/turn.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/ledger.h"
#include "tests/sim/server.h"

namespace muster::sim {

class SimCoordinator final : public Server {
 public:
  SimCoordinator(EventQueue& queue, Ledger& ledger, Callbacks callbacks)
      : queue_(queue), ledger_(ledger), callbacks_(std::move(callbacks)) {}

  const std::string& name() const override { return name_; }
  bool alive() const override { return state_ != nullptr; }
  bool leads() const override { return state_ != nullptr; }
  const coordinator::ClusterState& state() const override { return *state_; }
  uint64_t epoch() const override { return epoch_; }
  const std::map<uint64_t, v1::JobRecord>& finished() const override { return finished_; }

  void Start() override;
  void Kill() override;
  void Take(coordinator::Input input, ReplySink reply = nullptr) override;
  void List(ListSink sink) override;

  common::Now Now() const override;

 private:
  void Release(coordinator::Turn turn, std::vector<ReplySink> replies);
  void ArmTimer();
  // What of it has ended.
  std::vector<v1::JobRecord> Replay(coordinator::ClusterState& state, size_t first) const;
  // A turn is in the journal; then in the index, which follows it, and its effects go out.
  void Commit(const coordinator::Turn& turn);
  void Follow(const coordinator::Turn& turn, std::vector<ReplySink>& replies);
  // After a kill in between: the index gets what only the journal has.
  void CatchUp(const std::vector<v1::JobRecord>& replayed);

  EventQueue& queue_;
  Ledger& ledger_;  // the journal
  const Callbacks callbacks_;
  const std::string name_ = "alone";
  coordinator::Settings settings_;
  std::unique_ptr<coordinator::ClusterState> state_;
  uint64_t life_ = 0;            // closures of an older life do nothing
  uint64_t epoch_ = 0;           // durable
  int64_t last_commit_ms_ = 0;   // turns are committed in order,
  int64_t last_release_ms_ = 0;  // and released in order
  int64_t armed_ms_ = -1;
  v1::Snapshot snapshot_;  // of the state after the first `snapshot_size_` events
  size_t snapshot_size_ = 0;
  std::map<uint64_t, v1::JobRecord> finished_;  // the index of finished jobs, durable
  size_t indexed_ = 0;                          // of the journal, what the index has
};

}  // namespace muster::sim
