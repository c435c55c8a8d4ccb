// Driver, toolkit and framework of an attempt, as `show` and `diagnose` print them. Pure.
#pragma once

#include <string>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster::client {

// "torch 2.11.0+cu130 (CUDA 13.0), driver 550.54.15 (CUDA up to 12.4): node1, node2": one line for
// each set of versions, at most four. Empty: nothing was recorded.
std::vector<std::string> VersionLines(const v1::Attempt& attempt);

}  // namespace muster::client
