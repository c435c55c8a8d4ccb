#include "coordinator/services/worker_service.h"

#include <grpcpp/grpcpp.h>

#include "common/status.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/services/bulk_streams.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/control_stream.h"
#include "coordinator/services/refused.h"
#include "coordinator/services/streams.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;

class WorkerServiceRpcs final : public v1::WorkerService::CallbackService {
 public:
  WorkerServiceRpcs(Daemon& daemon, Peers& peers) : daemon_(daemon), peers_(peers) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Connect(
      CallbackServerContext* context) override {
    const auto caller = Ask(*context, "Connect");
    if (caller.ok()) return BeginControlStream(daemon_, *caller);
    return new RefusedDuplex<v1::WorkerMessage, v1::CoordinatorMessage>(caller.status());
  }
  grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* UploadLogs(
      CallbackServerContext* context) override {
    const auto caller = Ask(*context, "UploadLogs");
    if (caller.ok()) return BeginLogUpload(daemon_, *caller);
    return new RefusedDuplex<v1::LogChunk, v1::LogAck>(caller.status());
  }
  grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* UploadMetrics(
      CallbackServerContext* context) override {
    const auto caller = Ask(*context, "UploadMetrics");
    if (caller.ok()) return BeginMetricUpload(daemon_, *caller);
    return new RefusedDuplex<v1::MetricBatch, v1::MetricAck>(caller.status());
  }
  grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* UploadSamples(
      CallbackServerContext* context) override {
    const auto caller = Ask(*context, "UploadSamples");
    if (caller.ok()) return BeginSampleUpload(daemon_, *caller);
    return new RefusedDuplex<v1::SampleBatch, v1::SampleReceipt>(caller.status());
  }

  grpc::ServerUnaryReactor* BeginUpload(CallbackServerContext* context,
                                        const v1::BeginUploadRequest* request,
                                        v1::BeginUploadResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const auto caller = Ask(*context, "BeginUpload");
    if (!caller.ok()) {
      reactor->Finish(ToGrpc(caller.status()));
      return reactor;
    }
    coordinator::BeginUpload(daemon_, *caller, *request,
                             [reactor, response](absl::StatusOr<v1::BeginUploadResponse> answer) {
                               if (answer.ok()) *response = *std::move(answer);
                               reactor->Finish(ToGrpc(answer.status()));
                             });
    return reactor;
  }
  grpc::ServerReadReactor<v1::BlobChunk>* UploadBlob(CallbackServerContext* context,
                                                     v1::UploadBlobResponse* response) override {
    const auto caller = Ask(*context, "UploadBlob");
    if (caller.ok()) return BeginBlobUpload(daemon_, *caller, response);
    return new RefusedRead<v1::BlobChunk>(caller.status());
  }
  grpc::ServerWriteReactor<v1::BlobChunk>* DownloadBlob(
      CallbackServerContext* context, const v1::DownloadBlobRequest* request) override {
    auto stream = ServerStream<v1::BlobChunk>::Make();
    const auto caller = Ask(*context, "DownloadBlob");
    if (caller.ok()) {
      coordinator::DownloadBlob(daemon_, *caller, *request, stream);
    } else {
      stream->Close(caller.status());
    }
    return stream.get();
  }

  grpc::ServerWriteReactor<v1::CheckpointFiles>* ListResumeFiles(
      CallbackServerContext* context, const v1::ListResumeFilesRequest* request) override {
    auto stream = ServerStream<v1::CheckpointFiles>::Make();
    const auto caller = Ask(*context, "ListResumeFiles");
    if (caller.ok()) {
      coordinator::ListResumeFiles(daemon_, *caller, *request, stream);
    } else {
      stream->Close(caller.status());
    }
    return stream.get();
  }

 private:
  absl::StatusOr<Caller> Ask(const CallbackServerContext& context, std::string_view call) {
    Asker asker = AskerOf(daemon_, peers_, context, "WorkerService", call);
    RETURN_IF_ERROR(asker.admitted);
    return std::move(asker.caller);
  }

  Daemon& daemon_;
  Peers& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(Daemon& daemon, Peers& peers) {
  return std::make_unique<WorkerServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
