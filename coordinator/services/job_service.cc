#include "coordinator/services/job_service.h"

#include <grpcpp/grpcpp.h>

#include "coordinator/rpc/calls.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/streams.h"
#include "coordinator/services/submit_many.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Copies an answer into a unary call's response.
template <typename T>
Answer<T> AnswerTo(ServerUnaryReactor* reactor, T* response) {
  return [reactor, response](absl::StatusOr<T> answer) {
    if (answer.ok()) *response = *std::move(answer);
    reactor->Finish(ToGrpc(answer.status()));
  };
}

class JobServiceRpcs final : public v1::JobService::CallbackService {
 public:
  JobServiceRpcs(Daemon& daemon, const Peers& peers) : daemon_(daemon), peers_(peers) {}

#define MUSTER_ONE(name, Request, Response, action, object)                                        \
  ServerUnaryReactor* name(CallbackServerContext* context, const v1::Request* request,             \
                           v1::Response* response) override {                                      \
    ServerUnaryReactor* reactor = context->DefaultReactor();                                       \
    daemon_.calls.Add(CallId::k##name, Way::kGrpc);                                                \
    coordinator::name(daemon_, CallerOf(*context, peers_), *request, AnswerTo(reactor, response)); \
    return reactor;                                                                                \
  }
#define MUSTER_STREAM(name, Request, Message, action, object)                        \
  grpc::ServerWriteReactor<v1::Message>* name(CallbackServerContext* context,        \
                                              const v1::Request* request) override { \
    auto stream = ServerStream<v1::Message>::Make();                                 \
    daemon_.calls.Add(CallId::k##name, Way::kGrpc);                                  \
    coordinator::name(daemon_, CallerOf(*context, peers_), *request, stream);        \
    return stream.get();                                                             \
  }
#define MUSTER_DUPLEX(name, Request, Message, action, object)
  MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_STREAM, MUSTER_DUPLEX)
#undef MUSTER_ONE
#undef MUSTER_STREAM
#undef MUSTER_DUPLEX

  grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* SubmitMany(
      CallbackServerContext* context) override {
    daemon_.calls.Add(CallId::kSubmitMany, Way::kGrpc);
    return BeginSubmitMany(daemon_, CallerOf(*context, peers_));
  }

 private:
  Daemon& daemon_;
  const Peers& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon, const Peers& peers) {
  return std::make_unique<JobServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
