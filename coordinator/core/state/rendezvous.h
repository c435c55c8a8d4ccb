// The coordinator's part in how ranks find each other: which node hosts the rendezvous, and what each
// node is told of it. What is hosted there is the workers' affair (worker/rendezvous/). Pure.
#pragma once

#include "muster/v1/job.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// The one node whose address and port all ranks are told: that of rank 0.
bool HostsRendezvous(const v1::NodePart& part);

// Of a new attempt with all its parts: where ranks will meet. The port comes with its host's preparation.
void PlaceRendezvous(v1::Attempt* attempt);

void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part,
                    v1::PrepareAttempt* order);
void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part, v1::LaunchAttempt* order);

}  // namespace muster::coordinator
