// Every call of JobService, without a transport: caller and request in, answer or stream out. One
// .cc per subject. calls.h lists what each does to what.
#pragma once

#include <memory>

#include "coordinator/core/input.h"
#include "coordinator/rpc/daemon.h"
#include "coordinator/rpc/sink.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// server.cc
void GetServer(Daemon& daemon, const Caller& caller, const v1::GetServerRequest& request,
               Answer<v1::GetServerResponse> answer);
void SignIn(Daemon& daemon, const Caller& caller, const v1::SignInRequest& request,
            Answer<v1::SignInResponse> answer);
void Attend(Daemon& daemon, const Caller& caller, const v1::AttendRequest& request,
            std::shared_ptr<Sink<v1::AttendResponse>> sink);
void SetLifetime(Daemon& daemon, const Caller& caller, const v1::SetLifetimeRequest& request,
                 Answer<v1::SetLifetimeResponse> answer);

// submit.cc
void Submit(Daemon& daemon, const Caller& caller, const v1::SubmitRequest& request,
            Answer<v1::SubmitResponse> answer);
// What a job's spec asks of the stores of logs and metrics: after each start of the daemon.
void TellStores(Daemon& daemon, uint64_t job, const v1::JobSpec& spec);
void RerunJob(Daemon& daemon, const Caller& caller, const v1::RerunJobRequest& request,
              Answer<v1::SubmitResponse> answer);

// watch.cc
void Run(Daemon& daemon, const Caller& caller, const v1::SubmitRequest& request,
         std::shared_ptr<Sink<v1::JobUpdate>> sink);
void WatchJob(Daemon& daemon, const Caller& caller, const v1::WatchJobRequest& request,
              std::shared_ptr<Sink<v1::JobUpdate>> sink);
// After a restart: cancels attached jobs whose client does not come back.
void CancelAbandonedRuns(Daemon& daemon);

// events.cc
void ListEvents(Daemon& daemon, const Caller& caller, const v1::ListEventsRequest& request,
                std::shared_ptr<Sink<v1::EventBatch>> sink);

// jobs.cc
void ListJobs(Daemon& daemon, const Caller& caller, const v1::ListJobsRequest& request,
              Answer<v1::ListJobsResponse> answer);
void GetJob(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
            Answer<v1::GetJobResponse> answer);
void WhyJob(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
            Answer<v1::WhyResponse> answer);
void PlanJob(Daemon& daemon, const Caller& caller, const v1::PlanJobRequest& request,
             Answer<v1::PlanJobResponse> answer);

// assess.cc
void AssessJob(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
               Answer<v1::Assessment> answer);
// Now and every few seconds, until the pool stops.
void KeepAssessing(Daemon& daemon);

// change.cc
void CancelJobs(Daemon& daemon, const Caller& caller, const v1::CancelJobsRequest& request,
                Answer<v1::BulkResponse> answer);
void SignalJob(Daemon& daemon, const Caller& caller, const v1::SignalJobRequest& request,
               Answer<v1::BulkResponse> answer);
void ReleaseJobs(Daemon& daemon, const Caller& caller, const v1::JobReferences& request,
                 Answer<v1::BulkResponse> answer);
void RemoveJobs(Daemon& daemon, const Caller& caller, const v1::JobReferences& request,
                Answer<v1::BulkResponse> answer);

// diagnosis.cc
void DiagnoseJob(Daemon& daemon, const Caller& caller, const v1::DiagnoseJobRequest& request,
                 std::shared_ptr<Sink<v1::DiagnoseJobUpdate>> sink);

// logs.cc
void StreamLogs(Daemon& daemon, const Caller& caller, const v1::StreamLogsRequest& request,
                std::shared_ptr<Sink<v1::LogRecord>> sink);

// metrics.cc
void QueryMetrics(Daemon& daemon, const Caller& caller, const v1::QueryMetricsRequest& request,
                  std::shared_ptr<Sink<v1::MetricBatch>> sink);
// metric_summary.cc
void SummarizeMetrics(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
                      Answer<v1::MetricSummaries> answer);

// curves.cc
void QueryCurves(Daemon& daemon, const Caller& caller, const v1::QueryCurvesRequest& request,
                 Answer<v1::QueryCurvesResponse> answer);

// samples.cc
void QuerySamples(Daemon& daemon, const Caller& caller, const v1::QuerySamplesRequest& request,
                  std::shared_ptr<Sink<v1::SampleBucket>> sink);

// checkpoints.cc
void VerifyCheckpoint(Daemon& daemon, const Caller& caller, const v1::CheckpointReference& request,
                      Answer<v1::VerifyCheckpointResponse> answer);
void ListCheckpointFiles(Daemon& daemon, const Caller& caller,
                         const v1::CheckpointReference& request,
                         std::shared_ptr<Sink<v1::CheckpointFiles>> sink);
void PullFile(Daemon& daemon, const Caller& caller, const v1::PullFileRequest& request,
              std::shared_ptr<Sink<v1::BlobChunk>> sink);
void RemoveCheckpoint(Daemon& daemon, const Caller& caller, const v1::CheckpointReference& request,
                      Answer<v1::BulkResponse> answer);
// In pieces. The client's queue can hold all of them: at most 32 MiB of names.
void SendCheckpointFiles(const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files,
                         Sink<v1::CheckpointFiles>& sink);
// The bytes of one blob, starting at `offset`.
void SendBlob(Daemon& daemon, const std::string& sha256, uint64_t offset,
              std::shared_ptr<Sink<v1::BlobChunk>> sink);

// transfers.cc: checkpoint files for workers, each only for attempts of its node (reach.h).
void BeginUpload(Daemon& daemon, const Caller& caller, const v1::BeginUploadRequest& request,
                 Answer<v1::BeginUploadResponse> answer);
void DownloadBlob(Daemon& daemon, const Caller& caller, const v1::DownloadBlobRequest& request,
                  std::shared_ptr<Sink<v1::BlobChunk>> sink);
void ListResumeFiles(Daemon& daemon, const Caller& caller,
                     const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink);

// code.cc
void PrepareObjects(Daemon& daemon, const Caller& caller, const v1::PrepareObjectsRequest& request,
                    Answer<v1::PrepareObjectsResponse> answer);
void PullObject(Daemon& daemon, const Caller& caller, const v1::PullObjectRequest& request,
                std::shared_ptr<Sink<v1::BlobChunk>> sink);

// nodes.cc
void ListNodes(Daemon& daemon, const Caller& caller, const v1::ListNodesRequest& request,
               Answer<v1::ListNodesResponse> answer);
void DrainNode(Daemon& daemon, const Caller& caller, const v1::DrainNodeRequest& request,
               Answer<v1::BulkResponse> answer);
void DeclareNodeDead(Daemon& daemon, const Caller& caller,
                     const v1::DeclareNodeDeadRequest& request, Answer<v1::BulkResponse> answer);
void RemoveNode(Daemon& daemon, const Caller& caller, const v1::RemoveNodeRequest& request,
                Answer<v1::BulkResponse> answer);

// people.cc
void WhoAmI(Daemon& daemon, const Caller& caller, const v1::WhoAmIRequest& request,
            Answer<v1::WhoAmIResponse> answer);
void CreateToken(Daemon& daemon, const Caller& caller, const v1::CreateTokenRequest& request,
                 Answer<v1::CreateTokenResponse> answer);
void ListTokens(Daemon& daemon, const Caller& caller, const v1::ListTokensRequest& request,
                Answer<v1::ListTokensResponse> answer);
void RevokeToken(Daemon& daemon, const Caller& caller, const v1::RevokeTokenRequest& request,
                 Answer<v1::RevokeTokenResponse> answer);
void SetUser(Daemon& daemon, const Caller& caller, const v1::SetUserRequest& request,
             Answer<v1::User> answer);
void ListUsers(Daemon& daemon, const Caller& caller, const v1::ListUsersRequest& request,
               Answer<v1::ListUsersResponse> answer);
void RemoveUser(Daemon& daemon, const Caller& caller, const v1::RemoveUserRequest& request,
                Answer<v1::RemoveUserResponse> answer);
void ListCredentials(Daemon& daemon, const Caller& caller,
                     const v1::ListCredentialsRequest& request,
                     Answer<v1::ListCredentialsResponse> answer);
void RevokeCredentials(Daemon& daemon, const Caller& caller,
                       const v1::RevokeCredentialsRequest& request,
                       Answer<v1::RevokeCredentialsResponse> answer);

// projects.cc
void SetProject(Daemon& daemon, const Caller& caller, const v1::SetProjectRequest& request,
                Answer<v1::Project> answer);
void ListProjects(Daemon& daemon, const Caller& caller, const v1::ListProjectsRequest& request,
                  Answer<v1::ListProjectsResponse> answer);
void RemoveProject(Daemon& daemon, const Caller& caller, const v1::RemoveProjectRequest& request,
                   Answer<v1::RemoveProjectResponse> answer);
void SetSecret(Daemon& daemon, const Caller& caller, const v1::SetSecretRequest& request,
               Answer<v1::Secret> answer);
void ListSecrets(Daemon& daemon, const Caller& caller, const v1::ListSecretsRequest& request,
                 Answer<v1::ListSecretsResponse> answer);
void RemoveSecret(Daemon& daemon, const Caller& caller, const v1::RemoveSecretRequest& request,
                  Answer<v1::RemoveSecretResponse> answer);

// audit.cc
void ReadAudit(Daemon& daemon, const Caller& caller, const v1::ReadAuditRequest& request,
               std::shared_ptr<Sink<v1::AuditEntries>> sink);

}  // namespace muster::coordinator
