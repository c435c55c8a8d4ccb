// The workers' bulk streams: logs, metrics, samples, checkpoint files. Each reads more only while its
// unfinished work is bounded, so that a flood stays in the worker's spool.
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/contexts/call_budget.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

struct Caller;
struct Daemon;

// Owned by gRPC until it is done.
grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* BeginLogUpload(Daemon& daemon,
                                                                  const Caller& caller,
                                                                  CallBudget::Hold hold);
grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* BeginMetricUpload(Daemon& daemon,
                                                                           const Caller& caller,
                                                                           CallBudget::Hold hold);
grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* BeginSampleUpload(
    Daemon& daemon, const Caller& caller, CallBudget::Hold hold);
grpc::ServerReadReactor<v1::BlobChunk>* BeginBlobUpload(Daemon& daemon, const Caller& caller,
                                                        CallBudget::Hold hold,
                                                        v1::UploadBlobResponse* response);

}  // namespace muster::coordinator
