// The way of every job into the core, whichever call brings it.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/turn.h"

namespace muster::coordinator {

// What a client's request asks for, without what only the coordinator may say of a job.
SubmitInput InputOf(const Access& access, const Caller& caller, const v1::SubmitRequest& request);

// Seals the environment, and tells the stores what the new job asks of them before `done` has the
// core's reply. Otherwise the error, and `done` is not called.
absl::Status EnqueueSubmit(Jobs& jobs, JobStores& stores, Access& access, SubmitInput input,
                           std::function<void(const Reply&)> done);

// What a job's spec asks of the stores of logs and metrics: after each start of the daemon.
void TellStores(JobStores& stores, uint64_t job, const v1::JobSpec& spec);

}  // namespace muster::coordinator
