// Removing jobs with all they own, on request and by age; and blobs that nothing refers to any
// more.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/core/input.h"
#include "coordinator/retention.h"
#include "coordinator/rpc/daemon.h"

namespace muster::coordinator {

// Refused one by one for live jobs. Deletes rows, logs, metrics, and blobs of those that could go.
void RemoveWithBelongings(Daemon& daemon, RemoveInput input,
                          std::function<void(const Reply&)> done);
// Deletes those of the blobs that neither live nor finished jobs refer to.
void CollectBlobs(Daemon& daemon, std::vector<std::string> blobs);

// Now, and again every few minutes, until the pool ends.
void KeepHouse(Daemon& daemon, const Retention& retention);

}  // namespace muster::coordinator
