#include "client/connection/line.h"

#include <chrono>

#include "client/connection/addresses.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "common/text/strings.h"
#include "identity/certificate.h"

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

absl::Status Line::Convert(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  absl::Status said = FromGrpc(status);
  if (!common::CodeOf(said).empty()) return said;
  const std::string& message = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    // Of gRPC's chain of causes, only the last is useful to people: "…: Connection refused".
    if (message.find("HTTP/2") != std::string::npos) {
      return Unreachable(endpoint, "something else is listening there");
    }
    // A port that answered before speaks as we do: it has just closed.
    const bool has_answered = server.protocol() > 0;
    if (!has_answered && is_encrypted && LooksPlain(message)) return NotEncrypted(endpoint);
    const size_t last = message.rfind(": ");
    const std::string reason = last == std::string::npos ? message : message.substr(last + 2);
    if (!has_answered && !is_encrypted && !endpoint.starts_with("unix:") && LooksEncrypted(reason))
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

absl::Status Line::ConvertUnary(const grpc::Status& status, int64_t limit_ms) const {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
      common::CodeOf(FromGrpc(status)).empty()) {
    return Unreachable(endpoint, StrCat("no answer within ", limit_ms / 1000.0, " s"));
  }
  return Convert(status);
}

std::shared_ptr<Line> Dial(const std::string& endpoint, const identity::Credentials* credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(common::kBulkMessageBytesMax) + 64 * 1024);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A cut network is noticed within about 30 s, even in a stream that waits for days.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // A line that is dialed again must not wait for the pause of an older one to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto line = std::make_shared<Line>();
  line->endpoint = endpoint;
  line->is_encrypted = credentials != nullptr;
  const std::shared_ptr<grpc::ChannelCredentials> proof = ProofOf(credentials, arguments);
  // A host may have the name of one of gRPC's schemes: "unix:7700".
  const bool is_host = IsHostAndPort(endpoint) && !endpoint.starts_with('[');
  line->channel =
      grpc::CreateCustomChannel(is_host ? StrCat("dns:///", endpoint) : endpoint, proof, arguments);
  line->stub = v1::JobService::NewStub(line->channel);
  return line;
}

absl::StatusOr<v1::GetServerResponse> AskWho(const Line& line, int64_t limit_ms,
                                             grpc::ClientContext* context) {
  v1::GetServerRequest request;
  request.set_client_protocol(common::kProtocol);
  request.set_client_version(common::kVersion);
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(limit_ms));
  v1::GetServerResponse response;
  const grpc::Status status = line.stub->GetServer(context, request, &response);
  // A server that stops, as one that stood by does before it leads, ends its calls so. If the caller
  // cancels, no one waits for the answer.
  if (status.error_code() == grpc::StatusCode::CANCELLED)
    return Unreachable(line.endpoint, "it is stopping");
  RETURN_IF_ERROR(line.ConvertUnary(status, limit_ms));
  return response;
}

}  // namespace muster::client
