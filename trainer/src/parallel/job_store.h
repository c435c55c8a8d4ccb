// The store at which the ranks of a job meet, once per process: rank 0's server lives as long as the
// process, so that ranks may end their use of it at different times.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/topology.h"

namespace muster {

// The keys of this process's next group of all ranks: the first call of every rank gets the same
// keys, the second others, and so on. Returns when all ranks have made that call. Collective. Throws
// CommunicationError naming the address, and the ranks that did not come in time if the store can
// tell.
c10::intrusive_ptr<c10d::Store> next_job_store(const Topology& topology,
                                               std::chrono::milliseconds timeout);

// "rank 1 of 2", for messages.
std::string place_of(const Topology& topology);

}  // namespace muster
