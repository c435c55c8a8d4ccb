// What separates an attempt's processes from others of the same account.
#pragma once

#include <string>

namespace muster::shim {

// From now on and forever this process and all that it starts can signal, trace, inspect (environment, memory,
// descriptors) and reach at abstract sockets only each other: a Landlock domain. Files are not affected. The
// supervisor enters it before it starts the ranks, so that they share one: NCCL, CUDA and MPI read each other's
// memory and meet at abstract sockets. Processes outside, like the worker, can do to them what they could
// before. Empty, or the reason of a failure.
std::string EnterOwnDomain();

}  // namespace muster::shim
