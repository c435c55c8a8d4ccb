// Counts the bytes that live jobs take, in memory and in each snapshot: per job, per owner, and in total. A person
// who submits large jobs reaches the limit of their own share, and cannot use up the space that others need.
//
// Kept by Apply. A record is weighed when its job is submitted and when an attempt ends, its checkpoints' file lists
// as they come and go, so that no event costs more than what it brings. Pure: see state.h.
#pragma once

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// Call it when the job's record is new or has grown.
void Weigh(ClusterState& state, const v1::JobRecord& job);
// Call it when a file of one of its checkpoints is recorded; with `forget`, when it is removed.
void WeighFile(ClusterState& state, const v1::JobRecord& job, const v1::CheckpointFile& file,
               bool forget = false);
// Call it when the job has left the live jobs.
void Unweigh(ClusterState& state, const v1::JobRecord& job);
// Drops ranks' exits from attempts before the newest, oldest first, while the record is larger than the limit in
// Settings; the events still have them.
void Slim(const Settings& settings, v1::JobRecord& job);

// The caller's newest live job; 0: there is none.
uint64_t NewestOf(const ClusterState& state, const Caller& caller);

// RESOURCE_EXHAUSTED (JC1209) names the limit that one more job would exceed: of jobs, of the owner's bytes, of all.
absl::Status MayHold(const ClusterState& state, const SubmitInput& input);
// RESOURCE_EXHAUSTED if a part's file list would exceed what one job, or all of them, may hold.
absl::Status MayHold(const ClusterState& state, const v1::CheckpointPartReady& part);

}  // namespace muster::coordinator
