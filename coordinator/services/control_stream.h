// WorkerService.Connect: one worker's control stream, with a bounded outbox and a deadline for its
// registration.
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/contexts/call_budget.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

struct Caller;
struct Daemon;

// Owned by gRPC until it is done.
grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* BeginControlStream(
    Daemon& daemon, const Caller& caller, CallBudget::Hold hold);

}  // namespace muster::coordinator
