#include "worker/links/channel.h"

#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/grpcpp.h>

#include "common/base/limits.h"
#include "identity/certificate.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::worker {
namespace {

// gRPC 1.51 stops the threads of its callbacks with the last channel that used them, and aborts if one of
// these threads releases that channel. So one more channel, without a peer, exists for the life of the
// process.
void KeepCallbackThreads() {
  struct Anchor {
    std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel("", nullptr);
    std::unique_ptr<v1::WorkerService::Stub> stub = v1::WorkerService::NewStub(channel);
    grpc::ClientContext context;
    v1::BeginUploadRequest request;
    v1::BeginUploadResponse response;
  };
  // Volatile, so that the pointer is kept, which shows leak checkers that the object is kept on
  // purpose.
  static Anchor* volatile anchor = [] {
    auto* made = new Anchor;
    made->stub->async()->BeginUpload(&made->context, &made->request, &made->response,
                                     [](const grpc::Status&) {});
    return made;
  }();
  (void)anchor;
}

// A coordinator's certificate has this name whatever address is dialed, and no other certificate
// does.
std::shared_ptr<grpc::ChannelCredentials> Proof(const Route& route,
                                                grpc::ChannelArguments& arguments) {
  if (route.credentials == nullptr) return grpc::InsecureChannelCredentials();
  arguments.SetSslTargetNameOverride(std::string(identity::kCoordinatorDnsName));
  return grpc::SslCredentials({.pem_root_certs = route.credentials->authority_pem,
                               .pem_private_key = route.credentials->key_pem,
                               .pem_cert_chain = route.credentials->certificate_pem});
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const Route& route, bool own_connection) {
  KeepCallbackThreads();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Our own backoff paces dialing; gRPC's must not delay reaching a coordinator that is back.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // ignore proxy settings in the environment
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, own_connection ? 1 : 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(common::kBulkMessageBytesMax));
  arguments.SetMaxSendMessageSize(static_cast<int>(common::kBulkMessageBytesMax));
  const std::shared_ptr<grpc::ChannelCredentials> proof = Proof(route, arguments);
  return grpc::CreateCustomChannel(route.endpoint, proof, arguments);
}

}  // namespace muster::worker
