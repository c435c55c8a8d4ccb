// The way of every job into the core, whichever call brings it.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "coordinator/core/input.h"
#include "coordinator/core/turn.h"
#include "coordinator/rpc/daemon.h"

namespace muster::coordinator {

// What a client's request asks for, without what only the coordinator may say of a job.
SubmitInput InputOf(const Daemon& daemon, const Caller& caller, const v1::SubmitRequest& request);

// Seals the environment, and tells the stores what the new job asks of them before `done` has the
// core's reply. Otherwise the error, and `done` is not called.
absl::Status EnqueueSubmit(Daemon& daemon, SubmitInput input,
                           std::function<void(const Reply&)> done);

}  // namespace muster::coordinator
