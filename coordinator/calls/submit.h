// Every job enters the core here, whichever call brings it.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/turn.h"

namespace muster::coordinator {

// The input for a client's request, without the fields that only the coordinator may set.
SubmitInput InputOf(const Access& access, const Caller& caller, const v1::SubmitRequest& request);

// Seals the environment, and tells the stores what the new job asks of them before `done` gets the core's
// reply. On an error it returns that, and `done` is not called.
absl::Status EnqueueSubmit(Jobs& jobs, JobStores& stores, Access& access, SubmitInput input,
                           std::function<void(const Reply&)> done);

// Tells the stores of logs and metrics what a job's spec asks of them; also called after each start of the daemon.
void TellStores(JobStores& stores, uint64_t job, const v1::JobSpec& spec);

}  // namespace muster::coordinator
