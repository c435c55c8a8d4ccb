// A job that the coordinator refused because no set of its nodes could hold it, when the reason is
// plainer than its numbers.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;

// `refused` as it is, or a JC1402 that says which kinds of devices there are when no node has the
// one that `spec` asks for. Asks the coordinator for its nodes only in case of a JC1402.
absl::Status ExplainRefusal(const absl::Status& refused, const v1::JobSpec& spec,
                            Connection& connection);
// `nodes`: all that are registered. Pure.
absl::Status ExplainMissingKind(const absl::Status& refused, const v1::JobSpec& spec,
                                const v1::ListNodesResponse& nodes);

}  // namespace muster::client
