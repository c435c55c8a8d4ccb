// The files of live jobs' checkpoints, which the state keeps apart from the jobs' records: a record
// is copied for everyone who watches the job, and a checkpoint may hold 200,000 files. Finished
// jobs' rows and snapshots hold them inside the record. Pure: see state.h.
#pragma once

#include "coordinator/core/state.h"

namespace muster::coordinator {

// Moves the files out of a record that becomes live.
void DetachFiles(ClusterState& state, v1::JobRecord& job);
// Puts them back into a record that leaves, and lets go of them.
void AttachFiles(ClusterState& state, v1::JobRecord& job);
// A copy of a live job's record with its files inside.
v1::JobRecord WithFiles(const ClusterState& state, const v1::JobRecord& job);
// Of one checkpoint of a live job; empty when there is none.
const CheckpointFileList& FilesOf(const ClusterState& state, uint64_t job, uint32_t attempt,
                                  int64_t step);

}  // namespace muster::coordinator
