// Checks that the bytes of a checkpoint part are here: a worker's report is not enough.
#pragma once

#include "absl/status/status.h"
#include "coordinator/store_parts/blobs.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// OK: every file is in the store with its size (the store checks the hash before it takes a file),
// and none of them is collected as garbage during the next minutes. FAILED_PRECONDITION (JC1508): one
// is missing; an error of shortage.h: no verdict. Reads directories, so never call it on the control loop.
absl::Status CheckPartBytes(Blobs& blobs, const std::string& owner,
                            const v1::CheckpointPartReady& part);

}  // namespace muster::coordinator
