#include "coordinator/services/job_service.h"

#include <grpcpp/grpcpp.h>

#include "coordinator/rpc/audited.h"
#include "coordinator/rpc/calls.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/push_objects.h"
#include "coordinator/services/refused.h"
#include "coordinator/services/streams.h"
#include "coordinator/services/submit_many.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr std::string_view kService = "JobService";

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
  JobServiceRpcs(Daemon& daemon, Peers& peers) : daemon_(daemon), peers_(peers) {}

#define MUSTER_ONE(name, Request, Response, action, object)                             \
  ServerUnaryReactor* name(CallbackServerContext* context, const v1::Request* request,  \
                           v1::Response* response) override {                           \
    ServerUnaryReactor* reactor = context->DefaultReactor();                            \
    const AuditedCall call{#name, Action::action, Object::object, Way::kGrpc};          \
    daemon_.calls.Add(CallId::k##name, Way::kGrpc);                                     \
    const Asker asker = AskerOf(daemon_, peers_, *context, kService, #name);            \
    if (!asker.admitted.ok()) {                                                         \
      RecordRefusal(daemon_, call, asker.caller, *request, asker.admitted);             \
      reactor->Finish(ToGrpc(asker.admitted));                                          \
      return reactor;                                                                   \
    }                                                                                   \
    RunAudited(daemon_, call, asker.caller, *request, AnswerTo(reactor, response),      \
               [&](Answer<v1::Response> answer) {                                       \
                 coordinator::name(daemon_, asker.caller, *request, std::move(answer)); \
               });                                                                      \
    return reactor;                                                                     \
  }
#define MUSTER_STREAM(name, Request, Message, action, object)                             \
  grpc::ServerWriteReactor<v1::Message>* name(CallbackServerContext* context,             \
                                              const v1::Request* request) override {      \
    auto stream = ServerStream<v1::Message>::Make();                                      \
    const AuditedCall call{#name, Action::action, Object::object, Way::kGrpc};            \
    daemon_.calls.Add(CallId::k##name, Way::kGrpc);                                       \
    const Asker asker = AskerOf(daemon_, peers_, *context, kService, #name);              \
    if (!asker.admitted.ok()) {                                                           \
      RecordRefusal(daemon_, call, asker.caller, *request, asker.admitted);               \
      stream->Close(asker.admitted);                                                      \
      return stream.get();                                                                \
    }                                                                                     \
    const auto sink =                                                                     \
        Audited<v1::Request, v1::Message>(daemon_, call, asker.caller, *request, stream); \
    if (sink != nullptr) coordinator::name(daemon_, asker.caller, *request, sink);        \
    return stream.get();                                                                  \
  }
#define MUSTER_HANDWRITTEN(name, Request, Message, action, object)
  MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_STREAM, MUSTER_HANDWRITTEN, MUSTER_HANDWRITTEN)
#undef MUSTER_ONE
#undef MUSTER_STREAM
#undef MUSTER_HANDWRITTEN

  grpc::ServerReadReactor<v1::ObjectChunk>* PushObjects(
      CallbackServerContext* context, v1::PushObjectsResponse* response) override {
    daemon_.calls.Add(CallId::kPushObjects, Way::kGrpc);
    const Asker asker = AskerOf(daemon_, peers_, *context, kService, "PushObjects");
    if (asker.admitted.ok()) return BeginPushObjects(daemon_, asker.caller, response);
    RecordRefusal(daemon_, {"PushObjects", Action::kSubmit, Object::kCode, Way::kGrpc},
                  asker.caller, v1::PrepareObjectsRequest(), asker.admitted);
    return new RefusedRead<v1::ObjectChunk>(asker.admitted);
  }

  grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* SubmitMany(
      CallbackServerContext* context) override {
    daemon_.calls.Add(CallId::kSubmitMany, Way::kGrpc);
    const Asker asker = AskerOf(daemon_, peers_, *context, kService, "SubmitMany");
    if (asker.admitted.ok()) return BeginSubmitMany(daemon_, asker.caller);
    RecordRefusal(daemon_, {"SubmitMany", Action::kSubmit, Object::kJob, Way::kGrpc}, asker.caller,
                  v1::SubmitRequest(), asker.admitted);
    return new RefusedDuplex<v1::SubmitRequest, v1::SubmitResponse>(asker.admitted);
  }

 private:
  Daemon& daemon_;
  Peers& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon, Peers& peers) {
  return std::make_unique<JobServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
