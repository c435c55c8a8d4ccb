// Removes jobs with everything they own, on request and by age, and blobs that are no longer
// referenced.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/base/retention.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

// Live jobs are refused individually. Deletes the rows, logs, metrics and blobs of the others.
void RemoveWithBelongings(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates,
                          Process& process, RemoveInput input,
                          std::function<void(const Reply&)> done);
// Deletes the blobs that neither live nor finished jobs refer to, and that do not belong to any project's
// code.
void CollectBlobs(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process,
                  std::vector<std::string> blobs);

// Runs now and every few minutes, until the pool stops.
void CollectGarbage(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Access& access,
                    Process& process, const Retention& retention);

}  // namespace muster::coordinator
