// The calls of JobService, one method each. Part of Connection (connection.h).
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/connection_channel.h"
#include "client/grpc_exec_call.h"
#include "common/limits.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::client {
namespace {

// A durable answer may wait for a slow disk, so requests that change something get more time than a
// probe.
constexpr int64_t kSlowRequestMs = 60'000;
// Hashing a checkpoint of many GB takes a while.
constexpr int64_t kHashRequestMs = 3'600'000;

// The same request for a subset of the jobs at a time: each answer has to fit into a message.
template <typename Request, typename Send>
absl::StatusOr<v1::BulkResponse> InBatches(const Request& request, const Send& send) {
  constexpr int kBatch = 1'000;
  v1::BulkResponse all;
  for (int at = 0; at == 0 || at < request.jobs_size(); at += kBatch) {
    Request some = request;
    some.clear_jobs();
    for (int i = at; i < std::min(at + kBatch, request.jobs_size()); ++i) {
      some.add_jobs(request.jobs(i));
    }
    ASSIGN_OR_RETURN(const v1::BulkResponse response, send(some));
    all.MergeFrom(response);
  }
  return all;
}

}  // namespace

#define MUSTER_UNARY(name, request_type, response_type, limit_ms)                       \
  absl::StatusOr<v1::response_type> Connection::name(const v1::request_type& request) { \
    return channel_->Unary(&v1::JobService::Stub::name, request,                        \
                           std::max(limit_ms, channel_->timeout_ms));                   \
  }
MUSTER_UNARY(Submit, SubmitRequest, SubmitResponse, kSlowRequestMs)
MUSTER_UNARY(SignalJob, SignalJobRequest, BulkResponse, kSlowRequestMs)
MUSTER_UNARY(RerunJob, RerunJobRequest, SubmitResponse, kSlowRequestMs)
MUSTER_UNARY(VerifyCheckpoint, CheckpointReference, VerifyCheckpointResponse, kHashRequestMs)
MUSTER_UNARY(RemoveCheckpoint, CheckpointReference, BulkResponse, kSlowRequestMs)
MUSTER_UNARY(DrainNode, DrainNodeRequest, BulkResponse, kSlowRequestMs)
MUSTER_UNARY(DeclareNodeDead, DeclareNodeDeadRequest, BulkResponse, kSlowRequestMs)
MUSTER_UNARY(RemoveNode, RemoveNodeRequest, BulkResponse, kSlowRequestMs)
MUSTER_UNARY(SignIn, SignInRequest, SignInResponse, kSlowRequestMs)
MUSTER_UNARY(SetLifetime, SetLifetimeRequest, SetLifetimeResponse, kSlowRequestMs)
MUSTER_UNARY(WhoAmI, WhoAmIRequest, WhoAmIResponse, kSlowRequestMs)
MUSTER_UNARY(CreateToken, CreateTokenRequest, CreateTokenResponse, kSlowRequestMs)
MUSTER_UNARY(ListTokens, ListTokensRequest, ListTokensResponse, kSlowRequestMs)
MUSTER_UNARY(RevokeToken, RevokeTokenRequest, RevokeTokenResponse, kSlowRequestMs)
MUSTER_UNARY(SetUser, SetUserRequest, User, kSlowRequestMs)
MUSTER_UNARY(ListUsers, ListUsersRequest, ListUsersResponse, kSlowRequestMs)
MUSTER_UNARY(RemoveUser, RemoveUserRequest, RemoveUserResponse, kSlowRequestMs)
MUSTER_UNARY(ListCredentials, ListCredentialsRequest, ListCredentialsResponse, kSlowRequestMs)
MUSTER_UNARY(RevokeCredentials, RevokeCredentialsRequest, RevokeCredentialsResponse, kSlowRequestMs)
MUSTER_UNARY(SetProject, SetProjectRequest, Project, kSlowRequestMs)
MUSTER_UNARY(ListProjects, ListProjectsRequest, ListProjectsResponse, kSlowRequestMs)
MUSTER_UNARY(RemoveProject, RemoveProjectRequest, RemoveProjectResponse, kSlowRequestMs)
MUSTER_UNARY(SetSecret, SetSecretRequest, Secret, kSlowRequestMs)
MUSTER_UNARY(ListSecrets, ListSecretsRequest, ListSecretsResponse, kSlowRequestMs)
MUSTER_UNARY(RemoveSecret, RemoveSecretRequest, RemoveSecretResponse, kSlowRequestMs)
MUSTER_UNARY(PrepareObjects, PrepareObjectsRequest, PrepareObjectsResponse, kSlowRequestMs)
#undef MUSTER_UNARY

absl::StatusOr<v1::GetJobResponse> Connection::GetJob(const std::string& job) {
  v1::JobReference request;
  request.set_job(job);
  return channel_->Unary(&v1::JobService::Stub::GetJob, request, kSlowRequestMs);
}
absl::StatusOr<v1::WhyResponse> Connection::WhyJob(const std::string& job) {
  v1::JobReference request;
  request.set_job(job);
  return channel_->Unary(&v1::JobService::Stub::WhyJob, request, kSlowRequestMs);
}
absl::StatusOr<v1::Assessment> Connection::AssessJob(const std::string& job) {
  v1::JobReference request;
  request.set_job(job);
  return channel_->Unary(&v1::JobService::Stub::AssessJob, request, kSlowRequestMs);
}
absl::StatusOr<v1::PlanJobResponse> Connection::PlanJob(const v1::PlanJobRequest& request) {
  return channel_->Unary(&v1::JobService::Stub::PlanJob, request, kSlowRequestMs);
}
absl::StatusOr<v1::MetricSummaries> Connection::SummarizeMetrics(const std::string& job) {
  v1::JobReference request;
  request.set_job(job);
  return channel_->Unary(&v1::JobService::Stub::SummarizeMetrics, request, kSlowRequestMs);
}
absl::StatusOr<v1::ListJobsResponse> Connection::ListJobs(const v1::ListJobsRequest& request) {
  ASSIGN_OR_RETURN(v1::ListJobsResponse response,
                   channel_->Unary(&v1::JobService::Stub::ListJobs, request, kSlowRequestMs));
  if (!request.labels().empty() && !response.labels_met()) {
    // All jobs instead of a few: somebody may be about to cancel them.
    return common::MakeProblem(
        absl::StatusCode::kUnimplemented,
        {.code = "JC1302",
         .what = common::StrCat("the coordinator (version ", server().version(),
                                ") cannot select jobs by labels"),
         .fix = "upgrade the coordinator"});
  }
  return response;
}

absl::StatusOr<v1::ListNodesResponse> Connection::ListNodes() {
  v1::ListNodesRequest request;
  v1::ListNodesResponse all;
  while (true) {
    ASSIGN_OR_RETURN(v1::ListNodesResponse page,
                     channel_->Unary(&v1::JobService::Stub::ListNodes, request, kSlowRequestMs));
    all.MergeFrom(page);
    all.set_more(false);
    if (!page.more() || page.nodes().empty()) return all;
    request.set_after(page.nodes().rbegin()->record().facts().name());
  }
}

absl::StatusOr<std::vector<v1::CheckpointFile>> Connection::ListCheckpointFiles(
    const v1::CheckpointReference& request) {
  std::vector<v1::CheckpointFile> files;
  using Reader = grpc::ClientReader<v1::CheckpointFiles>;
  const absl::Status status = channel_->Stream<Reader, v1::CheckpointFiles>(
      [&](grpc::ClientContext* context) {
        return channel_->stub->ListCheckpointFiles(context, request);
      },
      [&](const v1::CheckpointFiles& piece) {
        files.insert(files.end(), piece.files().begin(), piece.files().end());
        return files.size() <= common::kCheckpointFilesMax;
      });
  RETURN_IF_ERROR(status);
  if (files.size() > common::kCheckpointFilesMax) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1504",
         .what = common::StrCat("the coordinator lists more than ", common::kCheckpointFilesMax,
                                " files of one checkpoint"),
         .fix = "do not use this checkpoint"});
  }
  return files;
}

#define MUSTER_BATCHED(name, request_type)                                             \
  absl::StatusOr<v1::BulkResponse> Connection::name(const v1::request_type& request) { \
    return InBatches(request, [this](const v1::request_type& some) {                   \
      return channel_->Unary(&v1::JobService::Stub::name, some, kSlowRequestMs);       \
    });                                                                                \
  }
MUSTER_BATCHED(CancelJobs, CancelJobsRequest)
MUSTER_BATCHED(ReleaseJobs, JobReferences)
MUSTER_BATCHED(RemoveJobs, JobReferences)
#undef MUSTER_BATCHED

absl::Status Connection::Run(const v1::SubmitRequest& request, const OnUpdate& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::JobUpdate>, v1::JobUpdate>(
      [&](grpc::ClientContext* context) { return channel_->stub->Run(context, request); },
      on_message);
}
absl::Status Connection::WatchJob(const v1::WatchJobRequest& request, int64_t deadline_ms,
                                  const OnUpdate& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::JobUpdate>, v1::JobUpdate>(
      [&](grpc::ClientContext* context) { return channel_->stub->WatchJob(context, request); },
      on_message, deadline_ms);
}
std::unique_ptr<ExecCall> Connection::Exec(const v1::ExecStart& start) {
  auto call = std::make_unique<GrpcExecCall>(
      channel_->channel, [this](const grpc::Status& status) { return channel_->Convert(status); });
  v1::ExecInput first;
  *first.mutable_start() = start;
  call->Write(first);
  return call;
}
absl::Status Connection::ListEvents(const v1::ListEventsRequest& request,
                                    const OnEvents& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::EventBatch>, v1::EventBatch>(
      [&](grpc::ClientContext* context) { return channel_->stub->ListEvents(context, request); },
      on_message);
}
absl::Status Connection::ReadAudit(const v1::ReadAuditRequest& request, const OnAudit& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::AuditEntries>, v1::AuditEntries>(
      [&](grpc::ClientContext* context) { return channel_->stub->ReadAudit(context, request); },
      on_message);
}
absl::Status Connection::DiagnoseJob(const v1::DiagnoseJobRequest& request,
                                     const OnDiagnosis& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::DiagnoseJobUpdate>, v1::DiagnoseJobUpdate>(
      [&](grpc::ClientContext* context) { return channel_->stub->DiagnoseJob(context, request); },
      on_message);
}
absl::Status Connection::StreamLogs(const v1::StreamLogsRequest& request, const OnLog& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::LogRecord>, v1::LogRecord>(
      [&](grpc::ClientContext* context) { return channel_->stub->StreamLogs(context, request); },
      on_message);
}
absl::Status Connection::QueryMetrics(const v1::QueryMetricsRequest& request,
                                      const OnMetrics& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::MetricBatch>, v1::MetricBatch>(
      [&](grpc::ClientContext* context) { return channel_->stub->QueryMetrics(context, request); },
      on_message);
}
absl::Status Connection::QuerySamples(const v1::QuerySamplesRequest& request,
                                      const OnSamples& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::SampleBucket>, v1::SampleBucket>(
      [&](grpc::ClientContext* context) { return channel_->stub->QuerySamples(context, request); },
      on_message);
}
absl::Status Connection::PullFile(const v1::PullFileRequest& request, const OnBytes& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::BlobChunk>, v1::BlobChunk>(
      [&](grpc::ClientContext* context) { return channel_->stub->PullFile(context, request); },
      on_message);
}
absl::Status Connection::PullObject(const v1::PullObjectRequest& request,
                                    const OnBytes& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::BlobChunk>, v1::BlobChunk>(
      [&](grpc::ClientContext* context) { return channel_->stub->PullObject(context, request); },
      on_message);
}

absl::StatusOr<v1::PushObjectsResponse> Connection::PushObjects(const NextChunk& next) {
  v1::PushObjectsResponse response;
  absl::Status problem;
  const grpc::Status status = channel_->WithContext([&](grpc::ClientContext* context) {
    const std::unique_ptr<grpc::ClientWriter<v1::ObjectChunk>> writer =
        channel_->stub->PushObjects(context, &response);
    v1::ObjectChunk chunk;
    while (true) {
      chunk.Clear();
      const absl::StatusOr<bool> more = next(&chunk);
      if (!more.ok()) {
        problem = more.status();
        context->TryCancel();
        break;
      }
      if (!*more) {
        writer->WritesDone();
        break;
      }
      if (!writer->Write(chunk)) break;  // Finish tells why
    }
    return writer->Finish();
  });
  RETURN_IF_ERROR(problem);
  RETURN_IF_ERROR(channel_->Convert(status));
  return response;
}

}  // namespace muster::client
