// `jobctl ls -w`: the list of jobs, again every second. Main thread.
#pragma once

#include "absl/status/statusor.h"
#include "client/terminal/listing.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;
class Session;

// On a terminal the rows that fit it, in place, until `q` or a signal; keys scroll. Elsewhere, and
// in formats for programs, the whole list whenever something in it has changed; ages alone do not
// count.
absl::StatusOr<int> WatchJobs(Session& session, Connection& connection,
                              const v1::ListJobsRequest& request, const ListingOptions& options);

}  // namespace muster::client
