// Explains why the coordinator refused a job that its nodes could never hold, if there is a simpler
// reason than the numbers.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;

// `refused` unchanged, or a JC1402 that lists the existing device kinds if no node has the one that
// `spec` asks for. Asks the coordinator for its nodes only for a JC1402.
absl::Status ExplainRefusal(const absl::Status& refused, const v1::JobSpec& spec,
                            Connection& connection);
// `nodes`: all registered ones. Pure.
absl::Status ExplainMissingKind(const absl::Status& refused, const v1::JobSpec& spec,
                                const v1::ListNodesResponse& nodes);

}  // namespace muster::client
