#include "coordinator/services/job_service.h"

#include <grpcpp/grpcpp.h>

#include "coordinator/rpc/handlers.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/streams.h"
#include "coordinator/services/submit_many.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Puts an answer into a unary call's response.
template <typename T>
Answer<T> AnswerTo(ServerUnaryReactor* reactor, T* response) {
  return [reactor, response](absl::StatusOr<T> answer) {
    if (answer.ok()) *response = *std::move(answer);
    reactor->Finish(ToGrpc(answer.status()));
  };
}

class JobServiceRpcs final : public v1::JobService::CallbackService {
 public:
  JobServiceRpcs(Daemon& daemon, const Peers& peers) : daemon_(daemon), peers_(peers) {}

  ServerUnaryReactor* GetServer(CallbackServerContext* context, const v1::GetServerRequest* request,
                                v1::GetServerResponse* response) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    coordinator::GetServer(daemon_, *request, AnswerTo(reactor, response));
    return reactor;
  }
  ServerUnaryReactor* ListJobs(CallbackServerContext* context, const v1::ListJobsRequest* request,
                               v1::ListJobsResponse* response) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    coordinator::ListJobs(daemon_, *request, AnswerTo(reactor, response));
    return reactor;
  }
  ServerUnaryReactor* ListNodes(CallbackServerContext* context, const v1::ListNodesRequest* request,
                                v1::ListNodesResponse* response) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    coordinator::ListNodes(daemon_, *request, AnswerTo(reactor, response));
    return reactor;
  }

// The calls that are all alike: caller, request, answer.
#define MUSTER_UNARY(name, Request, Response)                                                      \
  ServerUnaryReactor* name(CallbackServerContext* context, const v1::Request* request,             \
                           v1::Response* response) override {                                      \
    ServerUnaryReactor* reactor = context->DefaultReactor();                                       \
    coordinator::name(daemon_, CallerOf(*context, peers_), *request, AnswerTo(reactor, response)); \
    return reactor;                                                                                \
  }
  MUSTER_UNARY(Submit, SubmitRequest, SubmitResponse)
  MUSTER_UNARY(RerunJob, RerunJobRequest, SubmitResponse)
  MUSTER_UNARY(GetJob, JobReference, GetJobResponse)
  MUSTER_UNARY(WhyJob, JobReference, WhyResponse)
  MUSTER_UNARY(CancelJobs, CancelJobsRequest, BulkResponse)
  MUSTER_UNARY(SignalJob, SignalJobRequest, BulkResponse)
  MUSTER_UNARY(ReleaseJobs, JobReferences, BulkResponse)
  MUSTER_UNARY(RemoveJobs, JobReferences, BulkResponse)
  MUSTER_UNARY(SummarizeMetrics, JobReference, MetricSummaries)
  MUSTER_UNARY(VerifyCheckpoint, CheckpointReference, VerifyCheckpointResponse)
  MUSTER_UNARY(RemoveCheckpoint, CheckpointReference, BulkResponse)
  MUSTER_UNARY(DrainNode, DrainNodeRequest, BulkResponse)
  MUSTER_UNARY(DeclareNodeDead, DeclareNodeDeadRequest, BulkResponse)
  MUSTER_UNARY(RemoveNode, RemoveNodeRequest, BulkResponse)
  MUSTER_UNARY(SetLifetime, SetLifetimeRequest, SetLifetimeResponse)
#undef MUSTER_UNARY

#define MUSTER_STREAM(name, Request, Message)                                        \
  grpc::ServerWriteReactor<v1::Message>* name(CallbackServerContext* context,        \
                                              const v1::Request* request) override { \
    auto stream = ServerStream<v1::Message>::Make();                                 \
    coordinator::name(daemon_, CallerOf(*context, peers_), *request, stream);        \
    return stream.get();                                                             \
  }
  MUSTER_STREAM(Run, SubmitRequest, JobUpdate)
  MUSTER_STREAM(WatchJob, WatchJobRequest, JobUpdate)
  MUSTER_STREAM(ListEvents, ListEventsRequest, EventBatch)
  MUSTER_STREAM(DiagnoseJob, DiagnoseJobRequest, DiagnoseJobUpdate)
  MUSTER_STREAM(StreamLogs, StreamLogsRequest, LogRecord)
  MUSTER_STREAM(QueryMetrics, QueryMetricsRequest, MetricBatch)
  MUSTER_STREAM(ListCheckpointFiles, CheckpointReference, CheckpointFiles)
  MUSTER_STREAM(PullFile, PullFileRequest, BlobChunk)
#undef MUSTER_STREAM

  grpc::ServerWriteReactor<v1::AttendResponse>* Attend(CallbackServerContext* context,
                                                       const v1::AttendRequest* request) override {
    auto stream = ServerStream<v1::AttendResponse>::Make();
    coordinator::Attend(daemon_, stream);
    return stream.get();
  }

  grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* SubmitMany(
      CallbackServerContext* context) override {
    return BeginSubmitMany(daemon_, CallerOf(*context, peers_));
  }

 private:
  Daemon& daemon_;
  const Peers& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon, const Peers& peers) {
  return std::make_unique<JobServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
