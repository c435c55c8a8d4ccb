// What nodes report of what they prepare for a job: code, setup, container. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// A worker's report, within limits and safe to print. `doing` only of a preparation that lasts. The
// output of setup only if few nodes of the attempt have told theirs: they all print the same.
v1::Preparation BoundPreparation(const v1::Attempt& attempt, const v1::Preparation& said);
// What a worker is doing, in the same way.
std::string BoundDoing(const v1::Preparation& said);

// "node1: fetching code: 120 MB of 2.1 GB (2 more nodes are preparing)"; empty: none is preparing.
std::string DescribePreparing(const v1::Attempt& attempt);

}  // namespace muster::coordinator
