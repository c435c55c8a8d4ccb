// The files of live jobs' checkpoints and outputs, which the state keeps apart from the jobs' records:
// a record is copied for every client that watches the job, and a checkpoint may have 200,000 files.
// Finished jobs' rows and snapshots keep them in the record. Pure: see state.h.
#pragma once

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// Moves the files out of a record that becomes live.
void DetachFiles(ClusterState& state, v1::JobRecord& job);
// Moves them back into a record that leaves the state.
void AttachFiles(ClusterState& state, v1::JobRecord& job);
// A copy of a live job's record, files included.
v1::JobRecord WithFiles(const ClusterState& state, const v1::JobRecord& job);
// Calls use(checkpoint) for each checkpoint of the job and for each attempt's outputs.
template <typename Use>
void ForEachSaved(const v1::JobRecord& job, Use use) {
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) use(checkpoint);
  for (const v1::Checkpoint& outputs : job.outputs()) use(outputs);
}
template <typename Use>
void ForEachSaved(v1::JobRecord& job, Use use) {
  for (v1::Checkpoint& checkpoint : *job.mutable_checkpoints()) use(checkpoint);
  for (v1::Checkpoint& outputs : *job.mutable_outputs()) use(outputs);
}
// The files of one checkpoint, or of one attempt's outputs, of a live job; empty if there is none.
const CheckpointFileList& FilesOf(const ClusterState& state, uint64_t job, uint32_t attempt,
                                  int64_t step);

}  // namespace muster::coordinator
