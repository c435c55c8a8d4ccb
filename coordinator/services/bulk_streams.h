// The workers' bulk streams: logs, metrics, samples, checkpoint files. Each reads more only while its
// unfinished work is bounded, so that a flood stays in the worker's spool.
#pragma once

#include <grpcpp/grpcpp.h>

#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

struct Daemon;

// Owned by gRPC until it is done.
grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* BeginLogUpload(Daemon& daemon);
grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* BeginMetricUpload(Daemon& daemon);
grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* BeginSampleUpload(Daemon& daemon);
grpc::ServerReadReactor<v1::BlobChunk>* BeginBlobUpload(Daemon& daemon,
                                                        v1::UploadBlobResponse* response);

}  // namespace muster::coordinator
