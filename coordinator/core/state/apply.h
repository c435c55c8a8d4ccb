// Apply: the only code that changes ClusterState. It makes no decisions, and replay uses it too.
#pragma once

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// The newest snapshot format that this version reads. Format 2 is written if the environment of a live job is
// sealed, because 0.2.0, which reads only format 1, would start the ranks without it; or if the jobs are in
// separate rows (sqlite/snapshot_rows.h). Otherwise format 1 is written.
inline constexpr uint32_t kSnapshotFormat = 2;

// `now` is the start of the timers that the event arms; on replay it is the time of the restart.
void Apply(ClusterState& state, const v1::Event& event, Now now);

// Moves the jobs that reached a final state out of the state. Called after each turn and after
// replay.
std::vector<v1::JobRecord> TakeFinished(ClusterState& state);

// False for events that only change volatile state (NodeContact).
bool IsJournaled(const v1::Event& event);

// The content of a snapshot row for this state, and back. Keys of finished jobs come from the index
// of finished jobs.
v1::Snapshot MakeSnapshot(const ClusterState& state);
void RestoreSnapshot(ClusterState& state, const v1::Snapshot& snapshot, Now now);
// Restores a finished job's key at startup.
void RestoreKey(ClusterState& state, const std::string& owner, const std::string& key, uint64_t job,
                uint64_t spec_hash);

}  // namespace muster::coordinator
