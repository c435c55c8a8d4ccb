// JobService.SubmitMany: a pipeline of submits, answered in order.
#pragma once

#include <grpcpp/grpcpp.h>

#include "common/calls.h"
#include "coordinator/contexts/call_budget.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

struct Daemon;

inline const common::Call& kSubmitManyCall = *common::FindCall("JobService", "SubmitMany");

// Owned by gRPC until it is done.
grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* BeginSubmitMany(
    Daemon& daemon, const Caller& caller, CallBudget::Hold hold);

}  // namespace muster::coordinator
