#include "coordinator/services/worker_service.h"

#include <grpcpp/grpcpp.h>

#include "common/base/status.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/handler.h"
#include "coordinator/calls/transfers.h"
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
    auto entered = Enter(*context, "Connect");
    if (entered.ok()) return BeginControlStream(daemon_, entered->caller, entered->hold);
    return new RefusedDuplex<v1::WorkerMessage, v1::CoordinatorMessage>(entered.status());
  }
  grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* UploadLogs(
      CallbackServerContext* context) override {
    auto entered = Enter(*context, "UploadLogs");
    if (entered.ok()) return BeginLogUpload(daemon_, entered->caller, entered->hold);
    return new RefusedDuplex<v1::LogChunk, v1::LogAck>(entered.status());
  }
  grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* UploadMetrics(
      CallbackServerContext* context) override {
    auto entered = Enter(*context, "UploadMetrics");
    if (entered.ok()) return BeginMetricUpload(daemon_, entered->caller, entered->hold);
    return new RefusedDuplex<v1::MetricBatch, v1::MetricAck>(entered.status());
  }
  grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* UploadSamples(
      CallbackServerContext* context) override {
    auto entered = Enter(*context, "UploadSamples");
    if (entered.ok()) return BeginSampleUpload(daemon_, entered->caller, entered->hold);
    return new RefusedDuplex<v1::SampleBatch, v1::SampleReceipt>(entered.status());
  }

  grpc::ServerUnaryReactor* BeginUpload(CallbackServerContext* context,
                                        const v1::BeginUploadRequest* request,
                                        v1::BeginUploadResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    auto entered = Enter(*context, "BeginUpload");
    if (!entered.ok()) {
      reactor->Finish(ToGrpc(entered.status()));
      return reactor;
    }
    HandTo(&coordinator::BeginUpload, daemon_, entered->caller, *request,
           Answer<v1::BeginUploadResponse>([reactor, response, hold = entered->hold](
                                               absl::StatusOr<v1::BeginUploadResponse> answer) {
             if (answer.ok()) *response = *std::move(answer);
             reactor->Finish(ToGrpc(answer.status()));
           }));
    return reactor;
  }
  grpc::ServerReadReactor<v1::BlobChunk>* UploadBlob(CallbackServerContext* context,
                                                     v1::UploadBlobResponse* response) override {
    auto entered = Enter(*context, "UploadBlob");
    if (entered.ok()) return BeginBlobUpload(daemon_, entered->caller, entered->hold, response);
    return new RefusedRead<v1::BlobChunk>(entered.status());
  }
  grpc::ServerWriteReactor<v1::BlobChunk>* DownloadBlob(
      CallbackServerContext* context, const v1::DownloadBlobRequest* request) override {
    auto stream = ServerStream<v1::BlobChunk>::Make();
    auto entered = Enter(*context, "DownloadBlob");
    if (entered.ok()) {
      stream->Keep(entered->hold);
      HandTo(&coordinator::DownloadBlob, daemon_, entered->caller, *request,
             std::shared_ptr<Sink<v1::BlobChunk>>(stream));
    } else {
      stream->Close(entered.status());
    }
    return stream.get();
  }

  grpc::ServerWriteReactor<v1::CheckpointFiles>* ListResumeFiles(
      CallbackServerContext* context, const v1::ListResumeFilesRequest* request) override {
    auto stream = ServerStream<v1::CheckpointFiles>::Make();
    auto entered = Enter(*context, "ListResumeFiles");
    if (entered.ok()) {
      stream->Keep(entered->hold);
      HandTo(&coordinator::ListResumeFiles, daemon_, entered->caller, *request,
             std::shared_ptr<Sink<v1::CheckpointFiles>>(stream));
    } else {
      stream->Close(entered.status());
    }
    return stream.get();
  }

 private:
  // A caller that may make the call, and the part of its share of memory that the call holds until
  // it is over.
  struct Entered {
    Caller caller;
    CallBudget::Hold hold;
  };
  absl::StatusOr<Entered> Enter(const CallbackServerContext& context, std::string_view call) {
    const common::Call& row = *common::FindCall("WorkerService", call);
    Asker asker = AskerOf(daemon_, peers_, context, row);
    RETURN_IF_ERROR(asker.admitted);
    ASSIGN_OR_RETURN(CallBudget::Hold hold, TakeShare(daemon_, asker.caller, row));
    return Entered{std::move(asker.caller), std::move(hold)};
  }

  Daemon& daemon_;
  Peers& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(Daemon& daemon, Peers& peers) {
  return std::make_unique<WorkerServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
