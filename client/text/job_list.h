// The rows of `jobctl ls`: a job per row, or with `--wasted` the worst finding of each job that has
// one. Pure.
#pragma once

#include "client/terminal/listing.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

Listing JobListing(const v1::ListJobsResponse& response);
Listing WastedListing(const v1::ListJobsResponse& response);

}  // namespace muster::client
