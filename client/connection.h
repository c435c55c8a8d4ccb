// The only way to the coordinator: JobService without gRPC's types. Blocking calls; any thread,
// several at once. Errors are the coordinator's own ("[JC1201] …"), or JC1301, JC1302, JC1307 from
// this file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "identity/credential_files.h"
#include "muster/v1/exec.pb.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class ExecCall;

class Connection {
 public:
  // Checks version and protocol with GetServer. `endpoint` is "unix:/path" or "HOST:PORT".
  // `credentials`: null for a connection that is not encrypted.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(
      const std::string& endpoint, int64_t timeout_ms,
      const identity::Credentials* credentials = nullptr);
  ~Connection();

  // What GetServer returned when the connection was opened.
  const v1::GetServerResponse& server() const;
  const std::string& endpoint() const;

  absl::StatusOr<v1::GetServerResponse> GetServer();
  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request);
  // One page; the next one starts at `before_id`, the last job's.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request);
  absl::StatusOr<v1::GetJobResponse> GetJob(const std::string& job);
  absl::StatusOr<v1::WhyResponse> WhyJob(const std::string& job);
  // UNIMPLEMENTED: the coordinator is older.
  absl::StatusOr<v1::Assessment> AssessJob(const std::string& job);
  absl::StatusOr<v1::PlanJobResponse> PlanJob(const v1::PlanJobRequest& request);
  // On several jobs: split into as many requests as needed.
  absl::StatusOr<v1::BulkResponse> CancelJobs(const v1::CancelJobsRequest& request);
  absl::StatusOr<v1::BulkResponse> ReleaseJobs(const v1::JobReferences& request);
  absl::StatusOr<v1::BulkResponse> SignalJob(const v1::SignalJobRequest& request);
  absl::StatusOr<v1::BulkResponse> RemoveJobs(const v1::JobReferences& request);
  absl::StatusOr<v1::SubmitResponse> RerunJob(const v1::RerunJobRequest& request);
  absl::StatusOr<v1::MetricSummaries> SummarizeMetrics(const std::string& job);
  absl::StatusOr<v1::VerifyCheckpointResponse> VerifyCheckpoint(
      const v1::CheckpointReference& request);
  absl::StatusOr<v1::BulkResponse> RemoveCheckpoint(const v1::CheckpointReference& request);
  // All of them, page by page.
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  // All files of a checkpoint.
  absl::StatusOr<std::vector<v1::CheckpointFile>> ListCheckpointFiles(
      const v1::CheckpointReference& request);
  absl::StatusOr<v1::BulkResponse> DrainNode(const v1::DrainNodeRequest& request);
  absl::StatusOr<v1::BulkResponse> DeclareNodeDead(const v1::DeclareNodeDeadRequest& request);
  absl::StatusOr<v1::BulkResponse> RemoveNode(const v1::RemoveNodeRequest& request);
  absl::StatusOr<v1::SignInResponse> SignIn(const v1::SignInRequest& request);
  absl::StatusOr<v1::SetLifetimeResponse> SetLifetime(const v1::SetLifetimeRequest& request);
  // People and what is theirs. Lists: one page.
  absl::StatusOr<v1::WhoAmIResponse> WhoAmI(const v1::WhoAmIRequest& request);
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request);
  absl::StatusOr<v1::User> SetUser(const v1::SetUserRequest& request);
  absl::StatusOr<v1::ListUsersResponse> ListUsers(const v1::ListUsersRequest& request);
  absl::StatusOr<v1::RemoveUserResponse> RemoveUser(const v1::RemoveUserRequest& request);
  absl::StatusOr<v1::ListCredentialsResponse> ListCredentials(
      const v1::ListCredentialsRequest& request);
  absl::StatusOr<v1::RevokeCredentialsResponse> RevokeCredentials(
      const v1::RevokeCredentialsRequest& request);
  absl::StatusOr<v1::Project> SetProject(const v1::SetProjectRequest& request);
  absl::StatusOr<v1::ListProjectsResponse> ListProjects(const v1::ListProjectsRequest& request);
  absl::StatusOr<v1::RemoveProjectResponse> RemoveProject(const v1::RemoveProjectRequest& request);
  absl::StatusOr<v1::Secret> SetSecret(const v1::SetSecretRequest& request);
  absl::StatusOr<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest& request);
  absl::StatusOr<v1::RemoveSecretResponse> RemoveSecret(const v1::RemoveSecretRequest& request);

  // Streams. `on_message` returns false to end the stream (then the result is OK).
  using OnUpdate = std::function<bool(const v1::JobUpdate&)>;
  using OnEvents = std::function<bool(const v1::EventBatch&)>;
  using OnDiagnosis = std::function<bool(const v1::DiagnoseJobUpdate&)>;
  using OnLog = std::function<bool(const v1::LogRecord&)>;
  using OnMetrics = std::function<bool(const v1::MetricBatch&)>;
  using OnSamples = std::function<bool(const v1::SampleBucket&)>;
  using OnAudit = std::function<bool(const v1::AuditEntries&)>;
  using OnBytes = std::function<bool(const v1::BlobChunk&)>;
  using NextChunk = std::function<absl::StatusOr<bool>(v1::ObjectChunk*)>;
  absl::Status Run(const v1::SubmitRequest& request, const OnUpdate& on_message);
  // `deadline_ms` 0: none. Otherwise DEADLINE_EXCEEDED once it passes.
  absl::Status WatchJob(const v1::WatchJobRequest& request, int64_t deadline_ms,
                        const OnUpdate& on_message);
  absl::Status ListEvents(const v1::ListEventsRequest& request, const OnEvents& on_message);
  absl::Status DiagnoseJob(const v1::DiagnoseJobRequest& request, const OnDiagnosis& on_message);
  absl::Status StreamLogs(const v1::StreamLogsRequest& request, const OnLog& on_message);
  absl::Status QueryMetrics(const v1::QueryMetricsRequest& request, const OnMetrics& on_message);
  absl::Status QuerySamples(const v1::QuerySamplesRequest& request, const OnSamples& on_message);
  // All that the request asks for, oldest first; the last message has the head.
  absl::Status ReadAudit(const v1::ReadAuditRequest& request, const OnAudit& on_message);
  absl::Status PullFile(const v1::PullFileRequest& request, const OnBytes& on_message);
  absl::StatusOr<v1::PrepareObjectsResponse> PrepareObjects(
      const v1::PrepareObjectsRequest& request);
  // `next` fills a chunk, or returns false after the last one; its error cancels the stream and is
  // returned. No faster than the coordinator reads.
  absl::StatusOr<v1::PushObjectsResponse> PushObjects(const NextChunk& next);
  absl::Status PullObject(const v1::PullObjectRequest& request, const OnBytes& on_message);

  // A command in a job. How it began and ended is read from the call.
  std::unique_ptr<ExecCall> Exec(const v1::ExecStart& start);

  // Private coordinator: keeps it running until Close or the end of the process.
  void Attend();
  // Ends every open stream of this connection, from any thread; they return CANCELLED.
  void CancelStreams();

 private:
  struct Channel;
  explicit Connection(std::unique_ptr<Channel> channel);
  std::unique_ptr<Channel> channel_;
};

}  // namespace muster::client
