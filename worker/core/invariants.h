// What is true of a worker's state after every input, whatever a coordinator, a shim or a job sent.
// The simulator, the tests and builds with assertions check it after each Decide; a release build does
// not pay for it. Pure.
#pragma once

#include <string>

#include "worker/core/state.h"

namespace muster::worker {

// The first sentence that is not true of the state; empty: all are.
std::string BrokenInvariant(const WorkerState& state);

}  // namespace muster::worker
