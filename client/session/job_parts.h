// Checks that a job has the rank, attempt or node that a user names, since a wrong one would just print
// nothing; and counts the ranks that a request selects. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

bool IsRegistered(const std::string& node, const v1::ListNodesResponse& nodes);
// JC1401, suggesting the nearest name.
absl::Status NoSuchNode(const std::string& node, const v1::ListNodesResponse& nodes);

// Errors: JC1211, exit code 3. CheckNode: also JC1401, if `nodes` does not have that name.
absl::Status CheckAttempt(const v1::JobRecord& record, int64_t attempt);
absl::Status CheckRank(const v1::JobRecord& record, int64_t rank);
absl::Status CheckNode(const v1::JobRecord& record, const std::string& node,
                       const v1::ListNodesResponse& nodes);

// How many ranks of the newest requested attempt are shown.
size_t RanksShown(const v1::JobRecord& record, const v1::StreamLogsRequest& request);

}  // namespace muster::client
