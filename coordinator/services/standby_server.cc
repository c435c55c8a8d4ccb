#include "coordinator/services/standby_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/calls.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/coordinators.h"
#include "coordinator/identity/admission.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/services/acceptor.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/grpc_status.h"
#include "coordinator/services/peers.h"
#include "coordinator/services/secure_port.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kGetServer[] = "/muster.v1.JobService/GetServer";
constexpr char kListCoordinators[] = "/muster.v1.JobService/ListCoordinators";
// The requests of both have at most two small fields.
constexpr int kRequestBytesMost = 64 * 1024;
constexpr size_t kConnectionsMost = 256;
constexpr int kStandbyHandshakeWithinMs = 10'000;
constexpr std::chrono::milliseconds kStandbyStopWithin{100};

absl::Status StandsBy(const std::string& name, const HeadsView& view) {
  const bool is_known = !view.leader.name().empty();
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1630",
       .what = StrCat("the coordinator ", name, " stands by"),
       .why = is_known ? StrCat(view.leader.name(), " leads, at ", view.leader.endpoint())
                       : "none leads at the moment",
       .fix = is_known ? StrCat("ask ", view.leader.endpoint()) : "ask again in a few seconds"});
}

v1::GetServerResponse Describe(const StandbyServer::Options& options) {
  const HeadsView view = options.view();
  v1::GetServerResponse response;
  response.set_version(common::kVersion);
  response.set_protocol(common::kProtocol);
  response.set_pid(static_cast<uint32_t>(getpid()));
  response.set_head(options.name);
  response.set_stands_by(true);
  response.set_leader(view.leader.endpoint());
  for (const v1::HeadRecord& head : view.heads) response.add_heads(head.endpoint());
  return response;
}

// As when it leads, but for what only the leader knows of people: their roles, and who may no longer sign in. Everyone
// with a certificate of a person's was a viewer at least.
Admission AdmissionOf(const StandbyServer::Options& options) {
  return Admission({.own_uid = getuid(),
                    .cluster = options.cluster == nullptr ? "" : options.cluster->name(),
                    .people = {.user = [](std::string_view) -> std::optional<v1::User> {
                                 v1::User user;
                                 user.set_role(v1::ROLE_VIEWER);
                                 return user;
                               },
                               .is_revoked = nullptr}});
}

class Answer final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Answer(const absl::Status& status) { Finish(ToGrpc(status)); }
  explicit Answer(const google::protobuf::MessageLite& response) {
    const grpc::Slice slice(response.SerializeAsString());
    answer_ = grpc::ByteBuffer(&slice, 1);
    // Read first: a client's unary call sends its request in any case.
    StartRead(&request_);
  }
  void OnReadDone(bool) override {
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  Service(const StandbyServer::Options& options, Peers& peers)
      : options_(options), peers_(peers), admission_(AdmissionOf(options)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() == kGetServer) return new Answer(Describe(options_));
    if (context->method() == kListCoordinators) return List(*context);
    return new Answer(StandsBy(options_.name, options_.view()));
  }

 private:
  Answer* List(const grpc::CallbackServerContext& context) {
    const common::Now now = clock_.Read();
    const common::Call& row = *common::FindCall("JobService", "ListCoordinators");
    const Asker asker = AskerOf(admission_, peers_, context, row, now.wall_ms);
    if (!asker.admitted.ok()) return new Answer(asker.admitted);
    return new Answer(CoordinatorsIn(options_.view(), options_.name, now));
  }

  const StandbyServer::Options& options_;
  Peers& peers_;
  const Admission admission_;
  const common::SystemClock clock_;
};

}  // namespace

struct StandbyServer::Parts {
  Options options;
  Peers peers;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> secure;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Acceptor> acceptor;
};

StandbyServer::StandbyServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

StandbyServer::~StandbyServer() {
  if (parts_->acceptor != nullptr) parts_->acceptor->Stop();
  if (parts_->server != nullptr)
    parts_->server->Shutdown(std::chrono::system_clock::now() + kStandbyStopWithin);
}

absl::StatusOr<std::unique_ptr<StandbyServer>> StandbyServer::Start(Options options) {
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  Options& with = parts->options;
  parts->service = std::make_unique<Service>(with, parts->peers);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kRequestBytesMost);
  builder.RegisterCallbackGenericService(parts->service.get());
  if (with.cluster != nullptr) {
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kStandbyHandshakeWithinMs);
    using Builder = grpc::ServerBuilder::experimental_type;
    parts->secure = builder.experimental().AddExternalConnectionAcceptor(
        Builder::ExternalConnectionType::FROM_FD, SecureCredentials(*with.cluster));
  }
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr) return absl::InternalError("the gRPC server did not start");
  std::vector<Acceptor::Listener> listeners;
  if (!with.socket.empty()) {
    ASSIGN_OR_RETURN(common::UniqueFd fd, ListenOnSocket(with.socket));
    listeners.push_back({.fd = std::move(fd), .is_unix = true, .most = kConnectionsMost});
  }
  for (common::UniqueFd& fd : with.port.fds) {
    listeners.push_back(
        {.fd = std::move(fd), .is_tls = with.cluster != nullptr, .most = kConnectionsMost});
  }
  parts->acceptor = std::make_unique<Acceptor>(
      std::move(listeners), parts->peers, HandOverTo(parts->server.get(), parts->secure.get()));
  return std::unique_ptr<StandbyServer>(new StandbyServer(std::move(parts)));
}

}  // namespace muster::coordinator
