#include "client/connection.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <set>

#include "client/errors.h"
#include "client/grpc_exec_call.h"
#include "common/limits.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/status_wire.h"
#include "common/strings.h"
#include "common/version.h"
#include "identity/certificate.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

std::chrono::system_clock::time_point After(int64_t milliseconds) {
  return std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
}

absl::Status Unreachable(const std::string& endpoint, const std::string& reason) {
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1301",
                              .what = StrCat("the coordinator at ", endpoint, " does not answer"),
                              .why = reason,
                              .fix = "check that muster-coordinator runs there and that the port "
                                     "is open; jobctl context show"});
}

// What a port that speaks TLS does to a client that does not.
bool LooksEncrypted(const std::string& reason) {
  return reason.ends_with("Connection reset by peer") || reason == "Socket closed" ||
         reason == "Endpoint closing";
}

absl::Status NotSignedIn(const std::string& endpoint) {
  return common::MakeProblem(absl::StatusCode::kUnauthenticated,
                             {.code = "JC1357",
                              .what = StrCat("the coordinator at ", endpoint,
                                             " closes connections that are not encrypted"),
                              .why = "you are not signed in to it"});
}

// Whatever address is dialed, a coordinator's certificate has this name, and only theirs do.
std::shared_ptr<grpc::ChannelCredentials> ProofOf(const identity::Credentials* credentials,
                                                  grpc::ChannelArguments& arguments) {
  if (credentials == nullptr) return grpc::InsecureChannelCredentials();
  arguments.SetSslTargetNameOverride(std::string(identity::kCoordinatorDnsName));
  return grpc::SslCredentials({.pem_root_certs = credentials->authority_pem,
                               .pem_private_key = credentials->key_pem,
                               .pem_cert_chain = credentials->certificate_pem});
}

absl::Status FromGrpc(const grpc::Status& status) {
  return common::FromWire({.code = static_cast<absl::StatusCode>(status.error_code()),
                           .message = status.error_message(),
                           .details = status.error_details()});
}

}  // namespace

struct Connection::Channel {
  std::string endpoint;
  int64_t timeout_ms = 0;
  bool is_encrypted = false;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> stub;
  v1::GetServerResponse server;

  std::mutex mutex;  // guards the two below
  std::set<grpc::ClientContext*> streams;
  bool cancelled = false;

  std::unique_ptr<grpc::ClientContext> attend_context;
  std::unique_ptr<grpc::ClientReader<v1::AttendResponse>> attend;

  // The coordinator's own errors unchanged; gRPC's, which have no code, in our words.
  absl::Status Convert(const grpc::Status& status) const {
    if (status.ok()) return absl::OkStatus();
    absl::Status said = FromGrpc(status);
    if (!common::CodeOf(said).empty()) return said;
    const std::string& message = status.error_message();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      // Of gRPC's chain of causes, only the last is useful to people: "…: Connection refused".
      if (message.find("HTTP/2") != std::string::npos) {
        return Unreachable(endpoint, "something else is listening there");
      }
      const size_t last = message.rfind(": ");
      const std::string reason = last == std::string::npos ? message : message.substr(last + 2);
      if (!is_encrypted && !endpoint.starts_with("unix:") && LooksEncrypted(reason))
        return NotSignedIn(endpoint);
      return Unreachable(endpoint, reason);
    }
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      return common::MakeProblem(
          absl::StatusCode::kUnimplemented,
          {.code = "JC1302",
           .what = StrCat("the coordinator at ", endpoint,
                          " is a different version and does not support this request"),
           .fix = "jobctl version"});
    }
    return said;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Unary(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Response*),
                                 const Request& request, int64_t limit_ms) {
    grpc::ClientContext context;
    context.set_deadline(After(limit_ms));
    Response response;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
        common::CodeOf(FromGrpc(status)).empty()) {
      return Unreachable(endpoint, StrCat("no answer within ", limit_ms / 1000.0, " s"));
    }
    RETURN_IF_ERROR(Convert(status));
    return response;
  }

  template <typename Reader, typename Message>
  absl::Status Stream(const std::function<std::unique_ptr<Reader>(grpc::ClientContext*)>& open,
                      const std::function<bool(const Message&)>& on_message,
                      int64_t deadline_ms = 0) {
    grpc::ClientContext context;
    if (deadline_ms > 0) context.set_deadline(After(deadline_ms));
    {
      std::lock_guard lock(mutex);
      if (cancelled) return absl::CancelledError("the connection was closed");
      streams.insert(&context);
    }
    const std::unique_ptr<Reader> reader = open(&context);
    Message message;
    bool ended_by_us = false;
    while (reader->Read(&message)) {
      if (!ended_by_us && !on_message(message)) {
        ended_by_us = true;
        context.TryCancel();
      }
    }
    const grpc::Status status = reader->Finish();
    {
      std::lock_guard lock(mutex);
      streams.erase(&context);
    }
    return ended_by_us ? absl::OkStatus() : Convert(status);
  }
};

Connection::Connection(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

Connection::~Connection() {
  CancelStreams();
  if (channel_->attend != nullptr) {
    v1::AttendResponse ignored;
    while (channel_->attend->Read(&ignored)) {
    }
    channel_->attend->Finish();
  }
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(
    const std::string& endpoint, int64_t timeout_ms, const identity::Credentials* credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(common::kBulkMessageBytesMax) + 64 * 1024);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A cut network is noticed within about 30 s, even in a stream that waits for days.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  auto channel = std::make_unique<Channel>();
  channel->endpoint = endpoint;
  channel->timeout_ms = timeout_ms;
  const std::shared_ptr<grpc::ChannelCredentials> proof = ProofOf(credentials, arguments);
  channel->channel = grpc::CreateCustomChannel(endpoint, proof, arguments);
  channel->is_encrypted = credentials != nullptr;
  channel->stub = v1::JobService::NewStub(channel->channel);
  std::unique_ptr<Connection> connection(new Connection(std::move(channel)));
  ASSIGN_OR_RETURN(connection->channel_->server, connection->GetServer());
  const v1::GetServerResponse& server = connection->channel_->server;
  if (server.protocol() < common::kProtocolMin) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1302",
         .what = StrCat("the coordinator at ", endpoint, " (", server.version(),
                        ") speaks protocol ", server.protocol(), ", jobctl ", common::kVersion,
                        " needs ", common::kProtocolMin, " or newer"),
         .fix = "install the same release on both sides"});
  }
  return connection;
}

const v1::GetServerResponse& Connection::server() const { return channel_->server; }
const std::string& Connection::endpoint() const { return channel_->endpoint; }

absl::StatusOr<v1::GetServerResponse> Connection::GetServer() {
  v1::GetServerRequest request;
  request.set_client_protocol(common::kProtocol);
  request.set_client_version(common::kVersion);
  return channel_->Unary(&v1::JobService::Stub::GetServer, request, channel_->timeout_ms);
}

// A durable answer may wait for a slow disk, so requests that change something get more time than a
// probe.
constexpr int64_t kSlowRequestMs = 60'000;
// Hashing a checkpoint of many GB takes a while.
constexpr int64_t kHashRequestMs = 3'600'000;

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
    return common::MakeProblem(absl::StatusCode::kUnimplemented,
                               {.code = "JC1302",
                                .what = StrCat("the coordinator (version ", server().version(),
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
         .what = StrCat("the coordinator lists more than ", common::kCheckpointFilesMax,
                        " files of one checkpoint"),
         .fix = "do not use this checkpoint"});
  }
  return files;
}

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

void Connection::Attend() {
  if (channel_->attend != nullptr) return;
  channel_->attend_context = std::make_unique<grpc::ClientContext>();
  v1::AttendRequest request;
  request.set_pid(static_cast<uint32_t>(getpid()));
  channel_->attend = channel_->stub->Attend(channel_->attend_context.get(), request);
}

void Connection::CancelStreams() {
  std::lock_guard lock(channel_->mutex);
  channel_->cancelled = true;
  for (grpc::ClientContext* context : channel_->streams) context->TryCancel();
  if (channel_->attend_context != nullptr) channel_->attend_context->TryCancel();
}

}  // namespace muster::client
