#include "coordinator/services/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "common/limits.h"
#include "common/strings.h"
#include "coordinator/rpc/daemon.h"
#include "coordinator/services/job_service.h"
#include "coordinator/services/worker_service.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kPingIntervalMinMs = 10'000;
constexpr int kMessageSlackBytes = 64 * 1024;
constexpr std::chrono::milliseconds kStopWithin{100};

void SetLimits(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Two daemons must not share a port: the second is to be told.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(common::kControlMessageBytesMax) +
                                   kMessageSlackBytes);
  builder.SetMaxSendMessageSize(-1);
}

}  // namespace

struct RpcServer::Parts {
  std::unique_ptr<grpc::Service> jobs;
  std::unique_ptr<grpc::Service> workers;
  std::unique_ptr<grpc::Server> server;
  std::string endpoint;
};

RpcServer::RpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

RpcServer::~RpcServer() { Stop(); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Daemon& daemon,
                                                            const std::string& socket,
                                                            const std::string& listen) {
  auto parts = std::make_unique<Parts>();
  parts->jobs = MakeJobService(daemon);
  parts->workers = MakeWorkerService(daemon);
  grpc::ServerBuilder builder;
  SetLimits(builder);
  const auto credentials = grpc::InsecureServerCredentials();
  int port = 0;
  if (!socket.empty()) builder.AddListeningPort("unix:" + socket, credentials);
  if (!listen.empty()) builder.AddListeningPort(listen, credentials, &port);
  builder.RegisterService(parts->jobs.get());
  builder.RegisterService(parts->workers.get());
  // The socket is its owner's alone from its first moment on.
  const mode_t before = umask(0177);
  parts->server = builder.BuildAndStart();
  umask(before);
  if (parts->server == nullptr) {
    return absl::UnavailableError(StrCat("[JC1309] cannot listen on ",
                                         socket.empty() ? listen : socket,
                                         "; fix: name another --socket or --listen"));
  }
  const std::string host = listen.substr(0, listen.rfind(':'));
  parts->endpoint = socket.empty() ? StrCat(host, ":", port) : "unix:" + socket;
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(parts)));
}

void RpcServer::Stop() {
  if (parts_->server == nullptr) return;
  parts_->server->Shutdown(std::chrono::system_clock::now() + kStopWithin);
  parts_->server.reset();
}

const std::string& RpcServer::Endpoint() const { return parts_->endpoint; }

}  // namespace muster::coordinator
