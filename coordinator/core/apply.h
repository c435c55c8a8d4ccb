// What happened: the only code that changes ClusterState. No decision here; also used for replay.
#pragma once

#include "coordinator/core/state.h"

namespace muster::coordinator {

// `now` arms the timers that the event starts; on replay it is the restart's time.
void Apply(ClusterState& state, const v1::Event& event, Now now);

// Takes the jobs that have reached a final state out of the state. After each turn, and after
// replay.
std::vector<v1::JobRecord> TakeFinished(ClusterState& state);

// False for events that only change volatile state (NodeContact).
bool IsJournalled(const v1::Event& event);

// The state that a snapshot row holds, and back. Keys of finished jobs come from the index of
// finished jobs.
v1::Snapshot MakeSnapshot(const ClusterState& state);
void RestoreSnapshot(ClusterState& state, const v1::Snapshot& snapshot, Now now);
// A finished job's key, known again at start.
void RestoreKey(ClusterState& state, const std::string& owner, const std::string& key, uint64_t job,
                uint64_t spec_hash);

}  // namespace muster::coordinator
