// `jobctl ls -w`: the list of jobs, refreshed every second. Main thread.
#pragma once

#include "absl/status/statusor.h"
#include "client/terminal/listing.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;
class Session;

// On a terminal, updates the rows that fit in place until `q` or a signal; keys scroll. Elsewhere,
// and in formats for programs, prints the whole list whenever something other than ages has
// changed.
absl::StatusOr<int> WatchJobs(Session& session, Connection& connection,
                              const v1::ListJobsRequest& request, const ListingOptions& options);

}  // namespace muster::client
