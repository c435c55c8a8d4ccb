// The table of calls: one row has everything about a call of JobService, WorkerService or ExecService except its
// handler. A row of JobService generates its handler's declaration (coordinator/calls/handlers.h), its gRPC and HTTP
// methods with their entries in the audit and the budgets, and jobctl's method (client/connection/connection.h). Who
// may make it follows from its action and object (coordinator/identity/roles.cc). The table has only names, so files
// that include it need no message types. Pure.
#pragma once

#include <span>
#include <string_view>

namespace muster::common {

enum class Action {
  kRead,    // changes nothing
  kSubmit,  // makes a new job
  // Changes an existing object: cancel, signal, release, revoke; verify, which may mark a checkpoint as
  // damaged.
  kControl,
  kRemove,      // deletes it
  kAdminister,  // affects all users: nodes, the coordinator itself
  kServe,       // only for workers
  kOwn,         // reads or changes only what belongs to the caller, such as secrets
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

// The most memory that a call in progress holds, however slowly the client reads its answer:
// coordinator/contexts/call_budget.h.
enum class Cost {
  kSmall,    // 64 KiB: a name in, a row out
  kSpec,     // 512 KiB: a job's spec, or a long list of names
  kAnswer,   // 4 MiB: a record or a page, and the data that it is built from
  kWatch,    // 128 KiB: a stream of changes
  kStream,   // 1 MiB: a stream of data, read one piece ahead of the client
  kSearch,   // 10 MiB: such a stream, searched for lines
  kSubmits,  // 16 MiB: a stream of submits
  kCompare,  // 96 MiB: the points that are compared
  kUpload,  // 12 MiB: a stream into a store: data in flight, and acknowledgements that the sender has not read
  kControl,  // 64 MiB: commands that a worker has not read yet
};

struct Call {
  std::string_view service;  // "JobService"
  std::string_view name;     // "GetJob"
  Action action;
  Object object;
  Cost cost;
};

std::span<const Call> Calls();
// Null if there is no such call.
const Call* FindCall(std::string_view service, std::string_view name);

}  // namespace muster::common

// ONE: request in, one answer out. STREAM: request in, messages out. INTAKE: messages in, one answer out; DUPLEX:
// messages both ways; the last two are handwritten, in coordinator/services/ and in jobctl. Each row: name, request,
// answer or message, action, object, cost.
#define MUSTER_JOB_CALLS(ONE, STREAM, INTAKE, DUPLEX)                                            \
  ONE(GetServer, GetServerRequest, GetServerResponse, kRead, kCoordinator, kSmall)               \
  ONE(ListCoordinators, ListCoordinatorsRequest, ListCoordinatorsResponse, kRead, kCoordinator,  \
      kSpec)                                                                                     \
  ONE(SignIn, SignInRequest, SignInResponse, kRead, kCoordinator, kSmall)                        \
  STREAM(Attend, AttendRequest, AttendResponse, kRead, kCoordinator, kWatch)                     \
  ONE(SetLifetime, SetLifetimeRequest, SetLifetimeResponse, kAdminister, kCoordinator, kSmall)   \
  ONE(Submit, SubmitRequest, SubmitResponse, kSubmit, kJob, kSpec)                               \
  ONE(PrepareObjects, PrepareObjectsRequest, PrepareObjectsResponse, kSubmit, kCode, kAnswer)    \
  INTAKE(PushObjects, ObjectChunk, PushObjectsResponse, kSubmit, kCode, kAnswer)                 \
  STREAM(PullObject, PullObjectRequest, BlobChunk, kRead, kCode, kStream)                        \
  DUPLEX(SubmitMany, SubmitRequest, SubmitResponse, kSubmit, kJob, kSubmits)                     \
  STREAM(Run, SubmitRequest, JobUpdate, kSubmit, kJob, kWatch)                                   \
  ONE(RerunJob, RerunJobRequest, SubmitResponse, kSubmit, kJob, kSpec)                           \
  ONE(ListJobs, ListJobsRequest, ListJobsResponse, kRead, kJob, kAnswer)                         \
  ONE(GetJob, JobReference, GetJobResponse, kRead, kJob, kAnswer)                                \
  STREAM(WatchJob, WatchJobRequest, JobUpdate, kRead, kJob, kWatch)                              \
  ONE(WhyJob, JobReference, WhyResponse, kRead, kJob, kSpec)                                     \
  ONE(AssessJob, JobReference, Assessment, kRead, kJob, kSpec)                                   \
  ONE(PlanJob, PlanJobRequest, PlanJobResponse, kRead, kJob, kSpec)                              \
  STREAM(DiagnoseJob, DiagnoseJobRequest, DiagnoseJobUpdate, kRead, kJob, kStream)               \
  ONE(CancelJobs, CancelJobsRequest, BulkResponse, kControl, kJob, kSpec)                        \
  ONE(SignalJob, SignalJobRequest, BulkResponse, kControl, kJob, kSmall)                         \
  ONE(StopJobs, StopJobsRequest, BulkResponse, kControl, kJob, kSpec)                            \
  ONE(ReleaseJobs, ReleaseJobsRequest, BulkResponse, kControl, kJob, kSpec)                      \
  ONE(SetJobs, SetJobsRequest, BulkResponse, kControl, kJob, kSpec)                              \
  ONE(ListUsage, ListUsageRequest, ListUsageResponse, kRead, kJob, kAnswer)                      \
  ONE(ListQueue, ListQueueRequest, ListQueueResponse, kRead, kJob, kAnswer)                      \
  ONE(RemoveJobs, JobReferences, BulkResponse, kRemove, kJob, kSpec)                             \
  STREAM(ListEvents, ListEventsRequest, EventBatch, kRead, kEvent, kStream)                      \
  STREAM(StreamLogs, StreamLogsRequest, LogRecord, kRead, kLog, kStream)                         \
  STREAM(QueryMetrics, QueryMetricsRequest, MetricBatch, kRead, kMetric, kStream)                \
  ONE(SummarizeMetrics, JobReference, MetricSummaries, kRead, kMetric, kAnswer)                  \
  ONE(QueryCurves, QueryCurvesRequest, QueryCurvesResponse, kRead, kMetric, kAnswer)             \
  ONE(CompareJobs, CompareJobsRequest, CompareJobsResponse, kRead, kMetric, kCompare)            \
  STREAM(QuerySamples, QuerySamplesRequest, SampleBucket, kRead, kSample, kStream)               \
  STREAM(ListCheckpointFiles, CheckpointReference, CheckpointFiles, kRead, kCheckpoint, kStream) \
  ONE(VerifyCheckpoint, CheckpointReference, VerifyCheckpointResponse, kControl, kCheckpoint,    \
      kAnswer)                                                                                   \
  STREAM(PullFile, PullFileRequest, BlobChunk, kRead, kCheckpoint, kStream)                      \
  ONE(RemoveCheckpoint, CheckpointReference, BulkResponse, kRemove, kCheckpoint, kAnswer)        \
  ONE(ListNodes, ListNodesRequest, ListNodesResponse, kRead, kNode, kAnswer)                     \
  ONE(DrainNode, DrainNodeRequest, BulkResponse, kAdminister, kNode, kSmall)                     \
  ONE(DeclareNodeDead, DeclareNodeDeadRequest, BulkResponse, kAdminister, kNode, kSmall)         \
  ONE(RemoveNode, RemoveNodeRequest, BulkResponse, kAdminister, kNode, kSmall)                   \
  ONE(WhoAmI, WhoAmIRequest, WhoAmIResponse, kRead, kCoordinator, kSmall)                        \
  ONE(CreateToken, CreateTokenRequest, CreateTokenResponse, kAdminister, kToken, kSmall)         \
  ONE(ListTokens, ListTokensRequest, ListTokensResponse, kRead, kToken, kAnswer)                 \
  ONE(RevokeToken, RevokeTokenRequest, RevokeTokenResponse, kAdminister, kToken, kSmall)         \
  ONE(SetUser, SetUserRequest, User, kAdminister, kUser, kSmall)                                 \
  ONE(ListUsers, ListUsersRequest, ListUsersResponse, kRead, kUser, kAnswer)                     \
  ONE(RemoveUser, RemoveUserRequest, RemoveUserResponse, kAdminister, kUser, kSmall)             \
  ONE(ListCredentials, ListCredentialsRequest, ListCredentialsResponse, kRead, kCredential,      \
      kAnswer)                                                                                   \
  ONE(RevokeCredentials, RevokeCredentialsRequest, RevokeCredentialsResponse, kControl,          \
      kCredential, kSmall)                                                                       \
  ONE(SetProject, SetProjectRequest, Project, kAdminister, kProject, kSmall)                     \
  ONE(SetQuota, SetQuotaRequest, SetQuotaResponse, kControl, kProject, kSmall)                   \
  ONE(ListProjects, ListProjectsRequest, ListProjectsResponse, kRead, kProject, kAnswer)         \
  ONE(RemoveProject, RemoveProjectRequest, RemoveProjectResponse, kAdminister, kProject, kSmall) \
  ONE(SetSecret, SetSecretRequest, Secret, kOwn, kSecret, kSmall)                                \
  ONE(ListSecrets, ListSecretsRequest, ListSecretsResponse, kOwn, kSecret, kAnswer)              \
  ONE(RemoveSecret, RemoveSecretRequest, RemoveSecretResponse, kOwn, kSecret, kSmall)            \
  STREAM(ReadAudit, ReadAuditRequest, AuditEntries, kRead, kAudit, kStream)

// Handwritten in coordinator/services/worker_service.cc: most of them are streams into a store.
#define MUSTER_WORKER_CALLS(CALL)               \
  CALL(Connect, kServe, kNode, kControl)        \
  CALL(UploadLogs, kServe, kLog, kUpload)       \
  CALL(UploadMetrics, kServe, kMetric, kUpload) \
  CALL(UploadSamples, kServe, kSample, kAnswer) \
  CALL(BeginUpload, kServe, kBlob, kSmall)      \
  CALL(UploadBlob, kServe, kBlob, kAnswer)      \
  CALL(DownloadBlob, kServe, kBlob, kStream)    \
  CALL(ListResumeFiles, kServe, kCheckpoint, kStream)

// Handwritten in coordinator/services/exec_service.cc.
#define MUSTER_EXEC_CALLS(CALL)          \
  CALL(Exec, kControl, kJob, kAnswer)    \
  CALL(AwaitExec, kServe, kNode, kWatch) \
  CALL(ServeExec, kServe, kNode, kAnswer)
