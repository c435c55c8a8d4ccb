#include "coordinator/services/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/services/acceptor.h"
#include "coordinator/services/exec_service.h"
#include "coordinator/services/job_service.h"
#include "coordinator/services/only_in_term.h"
#include "coordinator/services/peers.h"
#include "coordinator/services/secure_port.h"
#include "coordinator/services/worker_service.h"

namespace muster::coordinator {
namespace {

constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kPingIntervalMinMs = 10'000;
constexpr int kMessageSlackBytes = 64 * 1024;
constexpr std::chrono::milliseconds kStopWithin{100};
constexpr std::chrono::seconds kCutExpiredEvery{1};

void SetLimits(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(common::kControlMessageBytesMax) +
                                   kMessageSlackBytes);
  builder.SetMaxSendMessageSize(-1);
}

// The unix socket has a separate share, so that a flood from the network does not lock out the
// users of this machine.
absl::StatusOr<std::vector<Acceptor::Listener>> ListenersOf(const Daemon& daemon,
                                                            RpcServer::Options& options) {
  std::vector<Acceptor::Listener> listeners;
  const bool has_both = !options.socket.empty() && !options.port.fds.empty();
  const size_t local = has_both ? options.connections / 4 : options.connections;
  const size_t remote = has_both ? options.connections - local : options.connections;
  if (!options.socket.empty()) {
    ASSIGN_OR_RETURN(common::UniqueFd fd, ListenOnSocket(options.socket));
    listeners.push_back({.fd = std::move(fd),
                         .is_unix = true,
                         .own_uid_only = daemon.instance.is_private,
                         .most = local});
  }
  for (common::UniqueFd& fd : options.port.fds) {
    listeners.push_back({.fd = std::move(fd),
                         .is_tls = options.cluster != nullptr,
                         .most = remote / options.port.fds.size()});
  }
  return listeners;
}

// A stream ends with the certificate that it was opened with. Now and every second, until the pool
// stops or the server is gone.
void CutExpired(Daemon& daemon, const std::weak_ptr<Peers>& weak) {
  const std::shared_ptr<Peers> peers = weak.lock();
  if (peers == nullptr) return;
  peers->CutExpired(daemon.process.clock.Read().wall_ms);
  daemon.process.pool.PostAfter(kCutExpiredEvery, [&daemon, weak] { CutExpired(daemon, weak); });
}

}  // namespace

// How long a client's TLS handshake may take until its certificate is known.
constexpr int kHandshakeWithinMs = 10'000;

struct RpcServer::Parts {
  const std::shared_ptr<Peers> peers = std::make_shared<Peers>();
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> secure;
  std::unique_ptr<grpc::Service> jobs;
  std::unique_ptr<grpc::Service> workers;
  std::unique_ptr<grpc::Service> execs;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Acceptor> acceptor;
  std::string endpoint;
};

RpcServer::RpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

RpcServer::~RpcServer() { Stop(); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Daemon& daemon, Options options) {
  auto parts = std::make_unique<Parts>();
  parts->endpoint = options.socket.empty() ? options.port.endpoint : "unix:" + options.socket;
  Peers& peers = *parts->peers;
  parts->jobs = MakeJobService(daemon, peers);
  parts->workers = MakeWorkerService(daemon, peers);
  parts->execs = MakeExecService(daemon, peers);
  // Before the first call.
  daemon.access.cut = [&peers](const std::vector<std::string>& serials) {
    return peers.Cut({serials.begin(), serials.end()});
  };
  daemon.access.cut_local = [&peers](const std::string& principal) {
    return peers.CutPrincipal(principal);
  };
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.RegisterService(parts->jobs.get());
  builder.RegisterService(parts->workers.get());
  builder.RegisterService(parts->execs.get());
  if (options.leading != nullptr)
    builder.experimental().SetInterceptorCreators(OnlyInTerm(*options.leading));
  if (options.cluster != nullptr) {
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeWithinMs);
    using Builder = grpc::ServerBuilder::experimental_type;
    parts->secure = builder.experimental().AddExternalConnectionAcceptor(
        Builder::ExternalConnectionType::FROM_FD, SecureCredentials(*options.cluster));
  }
  // No port: gRPC's own acceptor fails when the process runs out of descriptors, so connections are
  // handed to it.
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr) return absl::InternalError("the gRPC server did not start");
  ASSIGN_OR_RETURN(std::vector<Acceptor::Listener> listeners, ListenersOf(daemon, options));
  parts->acceptor = std::make_unique<Acceptor>(
      std::move(listeners), peers, HandOverTo(parts->server.get(), parts->secure.get()));
  if (options.cluster != nullptr) CutExpired(daemon, parts->peers);
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(parts)));
}

void RpcServer::Stop() {
  if (parts_->server == nullptr) return;
  if (parts_->acceptor != nullptr) parts_->acceptor->Stop();
  parts_->server->Shutdown(std::chrono::system_clock::now() + kStopWithin);
  parts_->server.reset();
}

const std::string& RpcServer::Endpoint() const { return parts_->endpoint; }

}  // namespace muster::coordinator
