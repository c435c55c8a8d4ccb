// Reports of nodes about what they prepare for a job: code, setup, container. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// A worker's report, cut to the limits and safe to print. `doing` is kept only while the
// preparation lasts, the output of setup only if few nodes of the attempt have reported theirs,
// because it is the same on all nodes.
v1::Preparation BoundPreparation(const v1::Attempt& attempt, const v1::Preparation& said);
// What a worker is doing, cut and made safe in the same way.
std::string BoundDoing(const v1::Preparation& said);

// "node1: fetching code: 120 MB of 2.1 GB (2 more nodes are preparing)"; empty: none is preparing.
std::string DescribePreparing(const v1::Attempt& attempt);

}  // namespace muster::coordinator
