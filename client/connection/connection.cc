#include "client/connection/connection.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <mutex>

#include "client/command_line/errors.h"
#include "client/connection/connection_channel.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "common/text/strings.h"
#include "identity/certificate.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

// How a port with TLS answers a client without it.
bool LooksEncrypted(const std::string& reason) {
  return reason.ends_with("Connection reset by peer") || reason == "Socket closed" ||
         reason == "Endpoint closing";
}

// How a port without TLS answers a client with it. If the port had answered before, it is just stopping.
bool LooksPlain(const std::string& message) {
  return message.find("WRONG_VERSION_NUMBER") != std::string::npos ||
         (message.find("failed to connect") != std::string::npos &&
          message.ends_with("Connection reset by peer"));
}

absl::Status NotSignedIn(const std::string& endpoint) {
  return common::MakeProblem(absl::StatusCode::kUnauthenticated,
                             {.code = "JC1357",
                              .what = StrCat("the coordinator at ", endpoint,
                                             " closes connections that are not encrypted"),
                              .why = "you are not signed in to it"});
}

absl::Status NotEncrypted(const std::string& endpoint) {
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1301",
       .what = StrCat("the coordinator at ", endpoint, " closes connections that are encrypted"),
       .why = "you are signed in to a cluster, and it is not started as that cluster's",
       .fix = "start it with that cluster's --data-dir; without TLS: jobctl context add NAME "
              "HOST:PORT, then jobctl -c NAME"});
}

// A coordinator's certificate has this name whatever address is dialed, and no other certificate
// does.
std::shared_ptr<grpc::ChannelCredentials> ProofOf(const identity::Credentials* credentials,
                                                  grpc::ChannelArguments& arguments) {
  if (credentials == nullptr) return grpc::InsecureChannelCredentials();
  arguments.SetSslTargetNameOverride(std::string(identity::kCoordinatorDnsName));
  return grpc::SslCredentials({.pem_root_certs = credentials->authority_pem,
                               .pem_private_key = credentials->key_pem,
                               .pem_cert_chain = credentials->certificate_pem});
}

}  // namespace

absl::Status Unreachable(const std::string& endpoint, const std::string& reason) {
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1301",
                              .what = StrCat("the coordinator at ", endpoint, " does not answer"),
                              .why = reason,
                              .fix = "check that muster-coordinator runs there and that the port "
                                     "is open; jobctl context show"});
}

absl::Status FromGrpc(const grpc::Status& status) {
  return common::FromWire({.code = static_cast<absl::StatusCode>(status.error_code()),
                           .message = status.error_message(),
                           .details = status.error_details()});
}

absl::Status Connection::Channel::Convert(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  absl::Status said = FromGrpc(status);
  if (!common::CodeOf(said).empty()) return said;
  const std::string& message = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    // Of gRPC's chain of causes, only the last is useful to people: "…: Connection refused".
    if (message.find("HTTP/2") != std::string::npos) {
      return Unreachable(endpoint, "something else is listening there");
    }
    if (is_encrypted && LooksPlain(message)) return NotEncrypted(endpoint);
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
  return GetServer(request);
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
