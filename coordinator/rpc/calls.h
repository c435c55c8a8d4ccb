// The table of calls: what each call of JobService, WorkerService and ExecService does, and to which kind of
// object. JobService is generated from its rows (services/job_service.cc); authorization reads
// them. Pure.
#pragma once

#include <span>
#include <string_view>

namespace muster::coordinator {

enum class Action {
  kRead,    // changes nothing
  kSubmit,  // makes a new job
  // Changes what exists: cancel, signal, release, revoke; verify, which may mark a checkpoint as damaged.
  kControl,
  kRemove,      // deletes it
  kAdminister,  // affects all users: nodes, the coordinator itself
  kServe,       // only for workers
  kOwn,         // reads or changes what belongs to the caller alone, such as secrets
};

enum class Object {
  kCoordinator,
  kJob,
  kEvent,
  kLog,
  kMetric,
  kSample,
  kCheckpoint,
  kBlob,
  kNode,
  kUser,
  kToken,
  kCredential,
  kProject,
  kSecret,
  kAudit,
  kCode  // objects of the code that travels with jobs
};

struct Call {
  std::string_view service;  // "JobService"
  std::string_view name;     // "GetJob"
  Action action;
  Object object;
};

std::span<const Call> Calls();
// Null if there is no such call.
const Call* FindCall(std::string_view service, std::string_view name);

}  // namespace muster::coordinator

// ONE: request in, one answer out. STREAM: request in, messages out. Both have the name of their
// handler (handlers.h). INTAKE: messages in, one answer out; DUPLEX: messages both ways; both are
// handwritten in services/. Each row: name, request, answer or message, action, object.
#define MUSTER_JOB_CALLS(ONE, STREAM, INTAKE, DUPLEX)                                         \
  ONE(GetServer, GetServerRequest, GetServerResponse, kRead, kCoordinator)                    \
  ONE(SignIn, SignInRequest, SignInResponse, kRead, kCoordinator)                             \
  STREAM(Attend, AttendRequest, AttendResponse, kRead, kCoordinator)                          \
  ONE(SetLifetime, SetLifetimeRequest, SetLifetimeResponse, kAdminister, kCoordinator)        \
  ONE(Submit, SubmitRequest, SubmitResponse, kSubmit, kJob)                                   \
  ONE(PrepareObjects, PrepareObjectsRequest, PrepareObjectsResponse, kSubmit, kCode)          \
  INTAKE(PushObjects, ObjectChunk, PushObjectsResponse, kSubmit, kCode)                       \
  STREAM(PullObject, PullObjectRequest, BlobChunk, kRead, kCode)                              \
  DUPLEX(SubmitMany, SubmitRequest, SubmitResponse, kSubmit, kJob)                            \
  STREAM(Run, SubmitRequest, JobUpdate, kSubmit, kJob)                                        \
  ONE(RerunJob, RerunJobRequest, SubmitResponse, kSubmit, kJob)                               \
  ONE(ListJobs, ListJobsRequest, ListJobsResponse, kRead, kJob)                               \
  ONE(GetJob, JobReference, GetJobResponse, kRead, kJob)                                      \
  STREAM(WatchJob, WatchJobRequest, JobUpdate, kRead, kJob)                                   \
  ONE(WhyJob, JobReference, WhyResponse, kRead, kJob)                                         \
  ONE(AssessJob, JobReference, Assessment, kRead, kJob)                                       \
  ONE(PlanJob, PlanJobRequest, PlanJobResponse, kRead, kJob)                                  \
  STREAM(DiagnoseJob, DiagnoseJobRequest, DiagnoseJobUpdate, kRead, kJob)                     \
  ONE(CancelJobs, CancelJobsRequest, BulkResponse, kControl, kJob)                            \
  ONE(SignalJob, SignalJobRequest, BulkResponse, kControl, kJob)                              \
  ONE(ReleaseJobs, JobReferences, BulkResponse, kControl, kJob)                               \
  ONE(RemoveJobs, JobReferences, BulkResponse, kRemove, kJob)                                 \
  STREAM(ListEvents, ListEventsRequest, EventBatch, kRead, kEvent)                            \
  STREAM(StreamLogs, StreamLogsRequest, LogRecord, kRead, kLog)                               \
  STREAM(QueryMetrics, QueryMetricsRequest, MetricBatch, kRead, kMetric)                      \
  ONE(SummarizeMetrics, JobReference, MetricSummaries, kRead, kMetric)                        \
  ONE(QueryCurves, QueryCurvesRequest, QueryCurvesResponse, kRead, kMetric)                   \
  STREAM(QuerySamples, QuerySamplesRequest, SampleBucket, kRead, kSample)                     \
  STREAM(ListCheckpointFiles, CheckpointReference, CheckpointFiles, kRead, kCheckpoint)       \
  ONE(VerifyCheckpoint, CheckpointReference, VerifyCheckpointResponse, kControl, kCheckpoint) \
  STREAM(PullFile, PullFileRequest, BlobChunk, kRead, kCheckpoint)                            \
  ONE(RemoveCheckpoint, CheckpointReference, BulkResponse, kRemove, kCheckpoint)              \
  ONE(ListNodes, ListNodesRequest, ListNodesResponse, kRead, kNode)                           \
  ONE(DrainNode, DrainNodeRequest, BulkResponse, kAdminister, kNode)                          \
  ONE(DeclareNodeDead, DeclareNodeDeadRequest, BulkResponse, kAdminister, kNode)              \
  ONE(RemoveNode, RemoveNodeRequest, BulkResponse, kAdminister, kNode)                        \
  ONE(WhoAmI, WhoAmIRequest, WhoAmIResponse, kRead, kCoordinator)                             \
  ONE(CreateToken, CreateTokenRequest, CreateTokenResponse, kAdminister, kToken)              \
  ONE(ListTokens, ListTokensRequest, ListTokensResponse, kRead, kToken)                       \
  ONE(RevokeToken, RevokeTokenRequest, RevokeTokenResponse, kAdminister, kToken)              \
  ONE(SetUser, SetUserRequest, User, kAdminister, kUser)                                      \
  ONE(ListUsers, ListUsersRequest, ListUsersResponse, kRead, kUser)                           \
  ONE(RemoveUser, RemoveUserRequest, RemoveUserResponse, kAdminister, kUser)                  \
  ONE(ListCredentials, ListCredentialsRequest, ListCredentialsResponse, kRead, kCredential)   \
  ONE(RevokeCredentials, RevokeCredentialsRequest, RevokeCredentialsResponse, kControl,       \
      kCredential)                                                                            \
  ONE(SetProject, SetProjectRequest, Project, kAdminister, kProject)                          \
  ONE(ListProjects, ListProjectsRequest, ListProjectsResponse, kRead, kProject)               \
  ONE(RemoveProject, RemoveProjectRequest, RemoveProjectResponse, kAdminister, kProject)      \
  ONE(SetSecret, SetSecretRequest, Secret, kOwn, kSecret)                                     \
  ONE(ListSecrets, ListSecretsRequest, ListSecretsResponse, kOwn, kSecret)                    \
  ONE(RemoveSecret, RemoveSecretRequest, RemoveSecretResponse, kOwn, kSecret)                 \
  STREAM(ReadAudit, ReadAuditRequest, AuditEntries, kRead, kAudit)

// Handwritten in services/worker_service.cc: most of them are streams into a store.
#define MUSTER_WORKER_CALLS(CALL)      \
  CALL(Connect, kServe, kNode)         \
  CALL(UploadLogs, kServe, kLog)       \
  CALL(UploadMetrics, kServe, kMetric) \
  CALL(UploadSamples, kServe, kSample) \
  CALL(BeginUpload, kServe, kBlob)     \
  CALL(UploadBlob, kServe, kBlob)      \
  CALL(DownloadBlob, kServe, kBlob)    \
  CALL(ListResumeFiles, kServe, kCheckpoint)

// Handwritten in services/exec_service.cc.
#define MUSTER_EXEC_CALLS(CALL)  \
  CALL(Exec, kControl, kJob)     \
  CALL(AwaitExec, kServe, kNode) \
  CALL(ServeExec, kServe, kNode)
