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

// samples.cc
void QuerySamples(Daemon& daemon, const Caller& caller, const v1::QuerySamplesRequest& request,
                  std::shared_ptr<Sink<v1::SampleBucket>> sink);

// checkpoints.cc
void VerifyCheckpoint(Daemon& daemon, const Caller& caller, const v1::CheckpointReference& request,
                      Answer<v1::VerifyCheckpointResponse> answer);
void ListCheckpointFiles(Daemon& daemon, const Caller& caller,
                         const v1::CheckpointReference& request,
                         std::shared_ptr<Sink<v1::CheckpointFiles>> sink);
// For the worker that resumes from it.
void ListResumeFiles(Daemon& daemon, const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink);
void PullFile(Daemon& daemon, const Caller& caller, const v1::PullFileRequest& request,
              std::shared_ptr<Sink<v1::BlobChunk>> sink);
void RemoveCheckpoint(Daemon& daemon, const Caller& caller, const v1::CheckpointReference& request,
                      Answer<v1::BulkResponse> answer);
// The bytes of one blob, starting at `offset`.
void SendBlob(Daemon& daemon, const std::string& sha256, uint64_t offset,
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

}  // namespace muster::coordinator
