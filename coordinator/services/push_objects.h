// PushObjects over gRPC: one chunk is read, written, then the next.
#pragma once

#include <grpcpp/grpcpp.h>

#include "common/calls.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

inline const common::Call& kPushObjectsCall = *common::FindCall("JobService", "PushObjects");

grpc::ServerReadReactor<v1::ObjectChunk>* BeginPushObjects(Daemon& daemon, const Caller& caller,
                                                           CallBudget::Hold hold,
                                                           v1::PushObjectsResponse* response);

}  // namespace muster::coordinator
