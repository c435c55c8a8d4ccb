#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/timers.h"

namespace muster::sim {

using coordinator::ClusterState;
using coordinator::Turn;

common::Now SimCoordinator::Now() const {
  // Its wall clock differs by an hour from all others, and jumps with each life.
  return {queue_.now_ms() + 5'000'000,
          queue_.now_ms() + 1'700'000'000'000 + static_cast<int64_t>(life_ % 3) * 3'600'000};
}

std::vector<v1::JobRecord> SimCoordinator::Replay(ClusterState& state, size_t first) const {
  for (size_t i = first; i < ledger_.events().size(); ++i) {
    Fits(coordinator::ReplayEvent(state, ledger_.events()[i], Now()));
    Holds(state);
  }
  Fits(coordinator::CheckReplayed(state));
  return coordinator::TakeFinished(state);
}

void SimCoordinator::Start() {
  if (state_ != nullptr) return;
  ++life_;
  ++epoch_;
  armed_ms_ = -1;
  auto state = std::make_unique<ClusterState>();
  state->settings = settings_;
  ShortenSharing(state->settings);
  if (snapshot_size_ > 0) Fits(coordinator::ReplaySnapshot(*state, snapshot_, Now()));
  CatchUp(Replay(*state, snapshot_size_));
  ledger_.CheckRecovered(*state, Now());
  for (const auto& [id, job] : finished_) {
    coordinator::RestoreKey(*state, coordinator::OwnerKey(job), job.idempotency_key(), id,
                            job.spec_hash());
  }
  state_ = std::move(state);
  Release(coordinator::ResumeAfterReplay(*state_, Now(), Holds), {});
  ArmTimer();
}

void SimCoordinator::Kill() {
  if (state_ == nullptr) return;
  state_.reset();
  ++life_;
  callbacks_.killed(*this);
}

void SimCoordinator::Take(coordinator::Input input, ReplySink reply) {
  if (state_ == nullptr) return;
  Turn turn = coordinator::TakeTurn(*state_, {&input, 1}, Now(), Holds);
  Settled(*state_, Now());
  std::vector<ReplySink> replies;
  replies.push_back(std::move(reply));
  Release(std::move(turn), std::move(replies));
  ArmTimer();
}

void SimCoordinator::List(ListSink sink) {
  if (state_ == nullptr) return;
  std::set<uint64_t> jobs;
  for (const auto& [id, job] : state_->jobs) jobs.insert(id);
  for (const auto& [id, job] : finished_) jobs.insert(id);
  sink(jobs);
}

void SimCoordinator::Release(Turn turn, std::vector<ReplySink> replies) {
  // A commit takes a moment, sometimes a second; later turns wait for earlier ones. A turn without
  // events does not wait for the disk itself. The index may be a little behind.
  const int64_t commit = turn.events.empty()   ? 0
                         : queue_.Chance(0.02) ? queue_.Draw(100, 1500)
                                               : queue_.Draw(0, 3);
  const int64_t behind = turn.events.empty() || !queue_.Chance(0.05) ? 0 : queue_.Draw(1, 500);
  last_commit_ms_ = std::max(last_commit_ms_, queue_.now_ms() + commit);
  last_release_ms_ = std::max(last_release_ms_, last_commit_ms_ + behind);
  const uint64_t life = life_;
  const auto shared = std::make_shared<const Turn>(std::move(turn));
  const bool dies_between = behind > 0 && !shared->finished.empty() && queue_.Chance(0.5);
  queue_.After(last_commit_ms_ - queue_.now_ms(), [this, life, shared, dies_between] {
    if (life != life_) return;  // killed before it was durable: it never happened
    Commit(*shared);
    if (!dies_between) return;
    Kill();
    queue_.After(queue_.Draw(10, 5'000), [this] { Start(); });
  });
  queue_.After(last_release_ms_ - queue_.now_ms(),
               [this, life, shared, replies = std::move(replies)]() mutable {
                 if (life == life_) Follow(*shared, replies);
               });
}

void SimCoordinator::Commit(const Turn& turn) {
  for (const v1::Event& event : turn.events) ledger_.Committed(event);
}

void SimCoordinator::Follow(const Turn& turn, std::vector<ReplySink>& replies) {
  for (const v1::JobRecord& job : turn.finished) finished_[job.id()] = job;
  indexed_ += turn.events.size();
  for (const coordinator::Command& command : turn.commands)
    callbacks_.deliver(*this, command, epoch_);
  for (size_t i = 0; i < replies.size() && i < turn.replies.size(); ++i) {
    if (replies[i]) replies[i](turn.replies[i]);
  }
  if (indexed_ == ledger_.events().size() && indexed_ - snapshot_size_ > 200 &&
      queue_.Chance(0.05)) {
    // Compaction: only what is durable, and known to the index, may be in a snapshot.
    ClusterState state;
    state.settings = settings_;
    ShortenSharing(state.settings);
    Replay(state, 0);
    snapshot_ = coordinator::MakeSnapshot(state);
    snapshot_size_ = ledger_.events().size();
  }
}

void SimCoordinator::CatchUp(const std::vector<v1::JobRecord>& replayed) {
  for (const v1::JobRecord& job : replayed) finished_.try_emplace(job.id(), job);
  indexed_ = ledger_.events().size();
  ledger_.CheckIndex(finished_);
}

void SimCoordinator::ArmTimer() {
  if (state_ == nullptr) return;
  const auto deadline = coordinator::NextDeadlineMonoMs(*state_);
  if (!deadline.has_value() || (armed_ms_ >= 0 && armed_ms_ <= *deadline)) return;
  armed_ms_ = *deadline;
  const uint64_t life = life_;
  queue_.After(std::max<int64_t>(*deadline - Now().mono_ms, 1), [this, life] {
    if (life != life_) return;
    armed_ms_ = -1;
    Take(coordinator::TickInput{});
  });
}

}  // namespace muster::sim
