// Facts that doctor finds by experiment: it asks the coordinator, and runs a job of two ranks that
// sum an array. Main thread.
#pragma once

#include "absl/status/statusor.h"
#include "client/doctor/facts.h"

namespace muster::client {
class Session;
}

namespace muster::client::doctor {

ProgramFacts ReadPrograms();
// Asks the configured coordinator, or the private one if it is running; starts none.
CoordinatorFacts ReadCoordinator(Session& session);
// Two ranks of __all_reduce on a private coordinator in a temporary directory, which is gone
// afterwards: neither the user's jobs nor a cluster see it.
AllReduceFacts RehearseAllReduce(Session& session);

// The program of such a rank: place and port come from the environment that every rank gets. 0 if
// the sum was right everywhere.
absl::StatusOr<int> RunAllReduceRank();

}  // namespace muster::client::doctor
