// Replays what a journal holds. Apply (apply.h) relies on each event following from those before it, but a
// journal's bytes come from a disk, so an event that does not fit is an error, and the state is then unusable.
// Pure: see state.h.
#pragma once

#include "absl/status/status.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// DATA_LOSS names what does not fit. FAILED_PRECONDITION: a newer version wrote the snapshot.
absl::Status ReplaySnapshot(ClusterState& state, const v1::Snapshot& snapshot, Now now);
absl::Status ReplayEvent(ClusterState& state, const v1::Event& event, Now now);
// After the last event. DATA_LOSS names a job in a state that no turn leaves behind.
absl::Status CheckReplayed(const ClusterState& state);

}  // namespace muster::coordinator
