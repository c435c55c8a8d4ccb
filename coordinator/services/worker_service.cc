#include "coordinator/services/worker_service.h"

#include <grpcpp/grpcpp.h>

#include "coordinator/rpc/handlers.h"
#include "coordinator/services/bulk_streams.h"
#include "coordinator/services/control_stream.h"
#include "coordinator/services/streams.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;

class WorkerServiceRpcs final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerServiceRpcs(Daemon& daemon) : daemon_(daemon) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Connect(
      CallbackServerContext* context) override {
    return BeginControlStream(daemon_);
  }
  grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* UploadLogs(
      CallbackServerContext* context) override {
    return BeginLogUpload(daemon_);
  }
  grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* UploadMetrics(
      CallbackServerContext* context) override {
    return BeginMetricUpload(daemon_);
  }
  grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* UploadSamples(
      CallbackServerContext* context) override {
    return BeginSampleUpload(daemon_);
  }

  grpc::ServerUnaryReactor* BeginUpload(CallbackServerContext* context,
                                        const v1::BeginUploadRequest* request,
                                        v1::BeginUploadResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    daemon_.files.Post([this, reactor, request, response] {
      const auto place = daemon_.blobs.Begin(request->sha256(), request->size());
      if (place.ok()) {
        response->set_have(place->have);
        response->set_offset(place->offset);
      }
      reactor->Finish(ToGrpc(place.status()));
    });
    return reactor;
  }
  grpc::ServerReadReactor<v1::BlobChunk>* UploadBlob(CallbackServerContext* context,
                                                     v1::UploadBlobResponse* response) override {
    return BeginBlobUpload(daemon_, response);
  }
  grpc::ServerWriteReactor<v1::BlobChunk>* DownloadBlob(
      CallbackServerContext* context, const v1::DownloadBlobRequest* request) override {
    auto stream = ServerStream<v1::BlobChunk>::Make();
    SendBlob(daemon_, request->sha256(), request->offset(), stream);
    return stream.get();
  }

  grpc::ServerWriteReactor<v1::CheckpointFiles>* ListResumeFiles(
      CallbackServerContext* context, const v1::ListResumeFilesRequest* request) override {
    auto stream = ServerStream<v1::CheckpointFiles>::Make();
    coordinator::ListResumeFiles(daemon_, *request, stream);
    return stream.get();
  }

 private:
  Daemon& daemon_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(Daemon& daemon) {
  return std::make_unique<WorkerServiceRpcs>(daemon);
}

}  // namespace muster::coordinator
