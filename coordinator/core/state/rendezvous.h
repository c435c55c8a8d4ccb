// The coordinator's part in how ranks find each other: which node hosts the rendezvous, and what each node
// learns about it. The workers implement the rendezvous itself (worker/rendezvous/). Pure.
#pragma once

#include "coordinator/core/state/state.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// True for the one node whose address and port all ranks get: the node of rank 0.
bool HostsRendezvous(const v1::NodePart& part);

// Workers of an older protocol have no store of ours.
inline constexpr uint32_t kProtocolHasStore = 4;
// limit: rendezvous: ranks of an attempt that meet at rank 0's store unless the job asks for it; above, at Muster's
inline constexpr uint32_t kRanksAtRankZeroMax = 256;

// Sets where and at what the ranks of a new attempt will meet; the attempt has all its parts. The port follows
// when its host has prepared.
void PlaceRendezvous(const SchedulingState& state, const v1::JobSpec& spec, v1::Attempt* attempt);

void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part,
                    v1::PrepareAttempt* order);
void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part, v1::LaunchAttempt* order);

}  // namespace muster::coordinator
